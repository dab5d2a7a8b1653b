"""Widgets show and do nothing that the dashboard would refuse, and lead back to their page."""

from __future__ import annotations

import html
import re

import pytest
from flask import redirect

from tests.dashboard.embedding import MISSING, WIDGET, ask, shown, two_people, with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host with a page of its own."""
    return make_host(before=with_page())


def without_time(body: str) -> str:
    return re.sub(r'data-jr-now="\d+"', "", body)


def test_neither_of_two_people_sees_counts_or_cancels_what_is_the_others(host: Host) -> None:
    two_people(host)
    theirs = add_job(host.runtime, "running", owner="anna", title="Anna's secret", lock_key="s")
    add_job(host.runtime, "running", owner="ben", title="Ben's own")
    ben = {**WIDGET, "X-User": "ben"}
    client = host.client()

    page = client.get(f"/report/{theirs}", headers=ben)
    like = client.get(f"/report/{MISSING}", headers=ben)
    assert "secret" not in page.text
    assert "Ben&#39;s own" in page.text
    assert without_time(page.text) == without_time(like.text)
    assert dict(page.headers) == dict(like.headers)
    for method, path in [
        ("GET", "/jobs/{}/embed"),
        ("GET", "/jobs/{}/embed?c=0&v=0&p=0"),
        ("GET", "/jobs/{}/cancel?next=/report"),
        ("POST", "/jobs/{}/cancel"),
    ]:
        seen = client.open(path.format(theirs), method=method, headers=ben)
        absent = client.open(path.format(MISSING), method=method, headers=ben)
        assert seen.status_code == absent.status_code == 404
        cleaned = [re.sub(r"<time.*?</time>|data-now=\S+", "", a.text) for a in (seen, absent)]
        assert cleaned[0] == cleaned[1]
        assert dict(seen.headers) == dict(absent.headers)
    for path in ("/jobs/", "/jobs/?status=running", "/jobs/_list?n=0", "/jobs/_mine"):
        assert "secret" not in client.get(path, headers={**ben, "HX-Request": "true"}).text
    assert re.search(r"All <b>1</b>", client.get("/jobs/", headers=ben).text)
    job = host.runtime.jobs.get(theirs)
    assert job is not None
    assert job.status == "running"


def test_without_an_authorize_hook_a_widget_shows_nothing(make_host: MakeHost) -> None:
    host = make_host(before=with_page(), authorize=None)
    host.jobs.actor(lambda: "anna")
    uuid = add_job(host.runtime, "running", title="Secret", owner="anna")

    assert "Secret" not in shown(host, uuid)
    assert ask(host, "/jobs/_mine").status_code == 403


def test_a_sign_in_page_from_authorize_does_not_take_the_page_away(make_host: MakeHost) -> None:
    host = make_host(before=with_page(), authorize=lambda action, job: redirect("/login"))
    uuid = add_job(host.runtime, "running", title="Secret")

    body = shown(host, uuid)

    assert "This job was deleted, or never existed" in body
    assert "Secret" not in body
    assert ask(host, f"/jobs/{uuid}/embed").location == "/login"
    assert ask(host, "/jobs/_mine").location == "/login"


@pytest.mark.parametrize(("action", "text"), [("view_log", "a line"), ("view_payload", "rows")])
def test_each_part_needs_its_own_action(make_host: MakeHost, action: str, text: str) -> None:
    refused: list[str] = []
    host = make_host(before=with_page(), authorize=lambda action, job: action not in refused)
    uuid = add_job(host.runtime, "succeeded", result={"rows": 3})
    add_lines(host.runtime, uuid, ["a line"])
    assert text in shown(host, uuid)

    refused.append(action)

    assert text not in shown(host, uuid)
    assert text not in ask(host, f"/jobs/{uuid}/embed?c=0").text


def test_cancel_is_not_offered_to_who_may_not(make_host: MakeHost) -> None:
    host = make_host(before=with_page(), authorize=lambda action, job: action != "cancel")

    assert "Cancel job" not in shown(host, add_job(host.runtime, "running"))


def test_the_confirm_page_leads_back_to_where_it_was_asked(host: Host) -> None:
    uuid, client = add_job(host.runtime, "running"), host.client()
    (link,) = re.findall(r'href="(/jobs/[^"]+/cancel[^"]+)"', shown(host, uuid))

    page = client.get(html.unescape(link))
    answer = client.post(html.unescape(link), headers={"Sec-Fetch-Site": "same-origin"})

    assert f'<a class="jr-button" href="/report/{uuid}">Keep running</a>' in page.text
    assert (answer.status_code, answer.location) == (303, f"/report/{uuid}")


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "\n/x",
        "x",
        "/" + "x" * 2000,
    ],
)
def test_nowhere_but_on_this_site(host: Host, path: str) -> None:
    uuid = add_job(host.runtime, "running")
    for method in ("get", "post"):
        answer = getattr(host.client(), method)(
            f"/jobs/{uuid}/cancel",
            query_string={"next": path},
            headers={"Sec-Fetch-Site": "same-origin"},
        )
        assert answer.status_code == 400
        assert answer.location is None
    job = host.runtime.jobs.get(uuid)
    assert job is not None
    assert job.status == "running", "what is refused was not done"


def test_the_question_is_a_form_with_a_token_and_no_page_around_it(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    answer = ask(host, f"/jobs/{uuid}/cancel?next=/report")

    assert answer.headers["X-Jobrunner-Fragment"] == "1"
    assert answer.text.startswith(
        f'<form class="jr-embed-ask" method="post" action="/jobs/{uuid}/cancel?next=/report">'
    )
    assert 'name="jobrunner_token"' in answer.text
    assert "Cancel this job?" in answer.text


def test_pages_and_polls_with_widgets_set_no_cookie(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    assert host.client().get(f"/report/{uuid}").headers.getlist("Set-Cookie") == []
    assert ask(host, f"/jobs/{uuid}/embed").headers.getlist("Set-Cookie") == []


def test_who_is_nobody_in_particular_has_no_jobs(host: Host) -> None:
    add_job(host.runtime, "running", owner=None, title="Of nobody")
    add_job(host.runtime, "running", owner="", title="Of an empty name")

    assert "You have no jobs." in shown(host, MISSING)
    assert "Of nobody" not in ask(host, "/jobs/_mine").text
    host.jobs.actor(lambda: "")
    assert "Of an empty name" not in ask(host, "/jobs/_mine").text


def test_jobs_of_ones_own_that_one_may_not_see_are_left_out(make_host: MakeHost) -> None:
    host = make_host(
        before=with_page(), authorize=lambda action, job: job is None or job.title != "Secret"
    )
    host.jobs.actor(lambda: "anna")
    add_job(host.runtime, "running", owner="anna", title="Secret")
    add_job(host.runtime, "running", owner="anna", title="Open")

    body = ask(host, "/jobs/_mine").text

    assert "Open" in body
    assert "Secret" not in body


def test_an_owner_who_may_not_see_the_list_has_his_widget_and_page(host: Host) -> None:
    allowed = ("view_job", "view_log", "view_payload", "download", "cancel")
    host.jobs.authorize(
        lambda action, job: job is not None and job.owner == "ben" and action in allowed
    )
    uuid = add_job(host.runtime, "running", owner="ben", title="Ben's own")

    assert "Cancel job" in shown(host, uuid)
    assert ask(host, f"/jobs/{uuid}/embed").status_code == 200
    assert host.get(f"/{uuid}").status_code == 200
    assert host.get("/").status_code == 403
