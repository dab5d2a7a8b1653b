"""Closed until opened; what one may not see is not there; what one may not do is not offered."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Response, redirect

from flask_jobrunner.model.records import Job
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines

MISSING = "01a22706-15d6-7a3d-b858-606442022120"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


def allow(*actions: str) -> Any:
    return lambda action, job: action in actions


def routes_of(uuid: str) -> list[tuple[str, str]]:
    """(method, path) of every route but static."""
    return [
        ("GET", "/jobs/"),
        ("GET", "/jobs/_list"),
        ("GET", "/jobs/supervisors"),
        ("GET", "/jobs/_supervisors"),
        ("GET", "/jobs/types"),
        ("GET", "/jobs/types/reports.build"),
        ("GET", "/jobs/prefs"),
        ("POST", "/jobs/prefs"),
        ("GET", f"/jobs/{uuid}"),
        ("GET", f"/jobs/{uuid}/_live"),
        ("GET", f"/jobs/{uuid}/log"),
        ("GET", f"/jobs/{uuid}/log.txt"),
        ("GET", f"/jobs/{uuid}/log.ndjson"),
        ("GET", f"/jobs/{uuid}/_lines"),
        ("GET", f"/jobs/{uuid}/artifacts/<name>"),
        ("GET", f"/jobs/{uuid}/embed"),
        ("GET", "/jobs/_mine"),
        ("GET", "/jobs/index.json"),
        ("GET", f"/jobs/{uuid}.json"),
        ("GET", "/jobs/supervisors.json"),
        ("GET", "/jobs/types.json"),
        ("GET", f"/jobs/{uuid}/cancel"),
        ("POST", f"/jobs/{uuid}/cancel"),
        ("GET", f"/jobs/{uuid}/requeue"),
        ("POST", f"/jobs/{uuid}/requeue"),
        ("GET", f"/jobs/{uuid}/force-stop"),
        ("POST", f"/jobs/{uuid}/force-stop"),
        ("GET", f"/jobs/{uuid}/again"),
        ("POST", f"/jobs/{uuid}/again"),
        ("GET", "/jobs/types/reports.build/run"),
        ("POST", "/jobs/types/reports.build/run"),
        ("GET", "/jobs/supervisors/<supervisor>/drain"),
        ("POST", "/jobs/supervisors/<supervisor>/drain"),
        ("GET", "/jobs/bulk/cancel"),
        ("POST", "/jobs/bulk/cancel"),
        ("GET", "/jobs/bulk/requeue"),
        ("POST", "/jobs/bulk/requeue"),
    ]


def ask(host: Host, method: str, path: str) -> Any:
    headers = {**SAME_ORIGIN, "HX-Request": "true"}
    data = {"until": "1"} if method == "POST" else None
    return host.client().open(path, method=method, headers=headers, data=data)


def test_the_list_above_names_every_route(host: Host) -> None:
    rules = {
        (method, rule.rule)
        for rule in host.app.url_map.iter_rules()
        if rule.endpoint.startswith("jobrunner.") and not rule.endpoint.endswith("static")
        for method in rule.methods or ()
        if method in ("GET", "POST")
    }

    assert rules == {
        (m, p.replace("UUID", "<uuid:uuid>").replace("reports.build", "<job_type>"))
        for m, p in routes_of("UUID")
    }


def test_without_an_authorize_hook_everything_but_static_is_closed(make_host: MakeHost) -> None:
    host = make_host(authorize=None)
    uuid = add_job(host.runtime, "running")

    answers = {(m, p): ask(host, m, p).status_code for m, p in routes_of(uuid)}
    with host.client().get("/jobs/static/frame.css") as static:
        assert static.status_code == 200

    assert set(answers.values()) == {403}


def test_a_closed_dashboard_tells_visitors_nothing(make_host: MakeHost) -> None:
    body = make_host(authorize=None).get().text

    assert "authorize" not in body
    assert "flask_jobrunner" not in body


def test_in_debug_mode_a_visitor_from_elsewhere_gets_the_lines_to_add(make_host: MakeHost) -> None:
    host = make_host(authorize=None)
    host.app.debug = True

    answer = host.get()

    assert answer.status_code == 403
    assert "@jobs.authorize" in answer.text


def test_in_debug_mode_it_opens_on_the_developers_machine_with_a_banner(
    make_host: MakeHost,
) -> None:
    host = make_host(authorize=None)
    host.app.debug = True
    uuid = add_job(host.runtime, "running")

    answer = host.app.test_client().get(f"/jobs/{uuid}")

    assert answer.status_code == 200
    assert "@jobs.authorize" in answer.text
    assert "Cancel job" in answer.text


def test_the_log_says_once_why_the_dashboard_is_closed(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    host = make_host(authorize=None)

    for _ in range(2):
        assert b"authorize" not in host.get().data

    assert [r.levelname for r in caplog.records if "@jobs.authorize" in r.message] == ["WARNING"]


def test_whoever_may_not_see_the_list_is_not_sent_there_again(make_host: MakeHost) -> None:
    main = make_host(authorize=allow()).get().text.partition("<main")[2]

    assert "You may not see the list of jobs." in main
    assert "Back to shop" in main
    assert "To the list of jobs" not in main


@pytest.mark.parametrize(
    ("environ", "headers"),
    [
        ({"REMOTE_ADDR": "127.0.0.1"}, {"X-Forwarded-For": "203.0.113.7"}),
        ({"REMOTE_ADDR": "127.0.0.1"}, {"Forwarded": "for=203.0.113.7"}),
        ({"REMOTE_ADDR": "127.0.0.1"}, {"Host": "rebound.example.org"}),
        ({"REMOTE_ADDR": "203.0.113.7"}, {}),
    ],
)
def test_in_debug_mode_proxies_and_foreign_names_do_not_count_as_this_machine(
    make_host: MakeHost, environ: dict[str, str], headers: dict[str, str]
) -> None:
    host = make_host(authorize=None)
    host.app.debug = True

    answer = host.app.test_client().get("/jobs/", environ_base=environ, headers=headers)

    assert answer.status_code == 403


def test_debug_mode_opens_nothing_once_there_is_a_hook(make_host: MakeHost) -> None:
    host = make_host(authorize=allow())
    host.app.debug = True

    assert host.app.test_client().get("/jobs/").status_code == 403


NEEDED = {
    "/jobs/": "view_list",
    "/jobs/_list": "view_list",
    "/jobs/supervisors": "view_supervisors",
    "/jobs/_supervisors": "view_supervisors",
    "/jobs/types": "view_list",
    "/jobs/types/reports.build": "view_list",
    "/jobs/prefs": "view_list",
    "": "view_job",
    "/_live": "view_job",
    "/log": "view_log",
    "/log.txt": "view_log",
    "/log.ndjson": "view_log",
    "/_lines": "view_log",
    "/artifacts/<name>": "download",
    "/embed": "view_job",
    "/jobs/_mine": "view_job",  # asked for each job of the list
    "/jobs/index.json": "view_list",
    ".json": "view_job",
    "/jobs/supervisors.json": "view_supervisors",
    "/jobs/types.json": "view_list",
    "/cancel": "cancel",
    "/requeue": "requeue",
    "/force-stop": "force_stop",
    "/again": "start",
    "/jobs/types/reports.build/run": "start",
    "/jobs/supervisors/<supervisor>/drain": "drain",
    "/jobs/bulk/cancel": "view_list",
    "/jobs/bulk/requeue": "view_list",
}


@pytest.mark.parametrize(
    "allowed",
    [
        "view_list",
        "view_log",
        "cancel",
        "requeue",
        "force_stop",
        "start",
        "download",
        "view_payload",
        "view_supervisors",
        "drain",
    ],
)
def test_each_route_needs_its_own_action(make_host: MakeHost, allowed: str) -> None:
    host = make_host(authorize=allow("view_job", allowed))
    uuid = add_job(host.runtime, "running")
    refused = dict.fromkeys(NEEDED, 403)

    for method, path in routes_of(uuid):
        tail = path.removeprefix(f"/jobs/{uuid}")
        status = ask(host, method, path).status_code
        if NEEDED[tail] in ("view_job", allowed):
            # 404: there is no such file. 409: a running job cannot be requeued. 303: done.
            assert status in (200, 303, 404, 409), (method, path)
        else:
            assert status == refused[tail], (method, path)


def test_a_job_that_may_not_be_seen_is_answered_like_one_that_is_not_there(
    make_host: MakeHost,
) -> None:
    host = make_host(authorize=lambda action, job: action != "view_job")
    hidden = add_job(host.runtime, "running")

    for (method, path), (_, absent) in zip(routes_of(hidden), routes_of(MISSING), strict=True):
        if hidden not in path:
            continue
        seen, not_there = ask(host, method, path), ask(host, method, absent)
        assert seen.status_code == not_there.status_code == 404, (method, path)
        assert without_clock(seen.text) == without_clock(not_there.text), (method, path)
        assert dict(seen.headers) == dict(not_there.headers), (method, path)


def without_clock(body: str) -> str:
    return re.sub(r'<time.*?</time>|data-now="\d+"', "", body)


def test_scope_hides_the_jobs_of_others_everywhere(make_host: MakeHost) -> None:
    host = make_host()
    host.jobs.scope(lambda: "ben")
    mine = add_job(host.runtime, "running", owner="ben", title="Mine")
    theirs = add_job(host.runtime, "running", owner="anna", title="Theirs")
    nobodys = add_job(host.runtime, "failed", owner=None, title="Nobody's")

    page = host.get().text
    poll = host.poll(f"/jobs/_list?n=0&a={mine},{theirs}").text

    assert "Mine" in page
    assert "Theirs" not in page
    assert "Nobody" not in page
    assert re.search(r"All <b>1</b>", page)
    assert mine[-12:] in poll
    assert theirs[-12:] not in poll
    assert "1 new job" in poll
    for uuid in (theirs, nobodys):
        for method, path in routes_of(uuid):
            if uuid not in path:
                continue
            assert ask(host, method, path).status_code == 404, (method, path)
    assert host.get(f"/{mine}").status_code == 200


def test_a_response_from_authorize_is_the_answer(make_host: MakeHost) -> None:
    host = make_host(authorize=lambda action, job: redirect("/login", 303))
    uuid = add_job(host.runtime, "running")

    for method, path in routes_of(uuid):
        answer = ask(host, method, path)
        assert answer.status_code == 303, (method, path)
        assert answer.location == "/login"
    # A login page for the jobs that exist and a 404 for the others would tell them apart.
    assert host.get(f"/{MISSING}").location == "/login"


@pytest.mark.parametrize("answer", [("No", 403), "no", 1, object()])
def test_an_answer_that_is_neither_yes_nor_no_opens_nothing(
    make_host: MakeHost, answer: object
) -> None:
    host = make_host(authorize=lambda action, job: answer)
    host.app.testing = True

    with pytest.raises(TypeError, match="must return True, False or a response"):
        host.get()


def test_a_hook_that_forgets_to_return_says_no(make_host: MakeHost) -> None:
    assert make_host(authorize=lambda action, job: None).get().status_code == 403


def test_authorize_is_given_the_job(make_host: MakeHost) -> None:
    asked: list[tuple[str, Job | None]] = []

    def remember(action: str, job: Job | None) -> bool:
        asked.append((action, job))
        return True

    host = make_host(authorize=remember)
    uuid = add_job(host.runtime, "running")
    host.get()
    host.get(f"/{uuid}")

    assert ("view_list", None) in asked
    assert {job.uuid for action, job in asked if job is not None} == {uuid}
    assert {action for action, job in asked if job is not None} == {
        "view_job",
        "view_payload",
        "view_log",
        "cancel",
    }


def test_an_async_hook_is_awaited(make_host: MakeHost) -> None:
    pytest.importorskip("asgiref")

    async def later(action: str, job: Job | None) -> bool:
        return action != "view_list"

    host = make_host(authorize=later)
    # In a thread of its own: the loop of a browser's driver may run in this one.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(host.get).result().status_code == 403


def test_deeds_that_are_not_allowed_are_absent_and_said_to_be(make_host: MakeHost) -> None:
    host = make_host(authorize=allow("view_job", "view_log", "view_payload"))
    uuid = add_job(host.runtime, "running")

    page = host.get(f"/{uuid}").text

    assert "Cancel job" not in page
    assert "You have read-only access" in page


def test_payload_and_result_need_view_payload(make_host: MakeHost) -> None:
    host = make_host(authorize=allow("view_job", "view_log"))
    uuid = add_job(host.runtime, "succeeded", payload={"key": "given"}, result={"key": "returned"})

    page = host.get(f"/{uuid}").text

    assert "given" not in page
    assert "returned" not in page
    assert "You may not see this" in page


def test_lines_need_view_log_on_the_page_and_in_polls(make_host: MakeHost) -> None:
    host = make_host(authorize=allow("view_job"))
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["a line to hide"])

    page = host.get(f"/{uuid}").text
    poll = host.poll(f"/jobs/{uuid}/_live?c=0")

    assert "a line to hide" not in page
    assert "You may not read this log" in page
    assert "a line to hide" not in poll.text


def test_the_hosts_own_response_class_is_accepted(make_host: MakeHost) -> None:
    class Later(Response):
        default_status = 418

    assert make_host(authorize=lambda action, job: Later("tea")).get().status_code == 418
