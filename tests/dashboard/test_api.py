"""The answers for programs: the same jobs, the same refusals, nothing secret, nothing twice."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import redirect

from flask_jobrunner.dashboard import api
from flask_jobrunner.model.errors import DatabaseAway
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change, end
from tests.dashboard.test_access import MISSING, allow
from tests.dashboard.test_files import keep
from tests.dashboard.test_supervisors import add_supervisor, pulled

PATHS = ("/index.json", "/supervisors.json", "/types.json", "/{uuid}.json", "/{uuid}/log.ndjson")


def told(host: Host, path: str, **headers: str) -> Any:
    answer = host.client().get(path if path.startswith("/jobs") else f"/jobs{path}", **headers)
    assert answer.status_code == 200, answer.text
    assert answer.mimetype == "application/json"
    return answer.json


# -- the list -----------------------------------------------------------------------------------


def test_every_job_comes_once_page_by_page(host: Host) -> None:
    uuids = [add_job(host.runtime, "succeeded") for _ in range(7)]
    path: str | None = "/index.json?limit=3"
    found: list[str] = []
    pages = 0

    while path is not None:
        page = told(host, path)
        found += [job["uuid"] for job in page["jobs"]]
        # What comes meanwhile is not for those who read on towards older ones.
        add_job(host.runtime, "running")
        path, pages = page["next"], pages + 1

    assert found == uuids[::-1]
    assert pages == 3


def test_the_filters_of_the_page_narrow_it_and_stay_in_the_link(host: Host) -> None:
    for number in range(3):
        add_job(host.runtime, "failed", reference="order:1", title=f"of the order {number}")
    add_job(host.runtime, "failed", reference="order:2")
    add_job(host.runtime, "running", reference="order:1")

    page = told(host, "/index.json?status=failed&reference=order:1&q=of+the&limit=2")
    rest = told(host, page["next"])

    assert [job["title"][-1] for job in page["jobs"] + rest["jobs"]] == ["2", "1", "0"]
    assert rest["next"] is None
    assert page["counts"]["failed"] == 3
    assert page["counts"]["running"] == 0


@pytest.mark.parametrize(("limit", "number"), [("0", 1), ("1", 1), ("999999999999", 200)])
def test_a_page_is_bounded(host: Host, limit: str, number: int) -> None:
    for _ in range(201):
        add_job(host.runtime, "succeeded")

    assert len(told(host, f"/index.json?limit={limit}")["jobs"]) == number


def test_the_list_tells_no_more_than_the_page_for_people(host: Host) -> None:
    message = "db://user:hunter2@db is away\nsecond line"
    add_job(
        host.runtime,
        "failed",
        payload={"a": 1},
        lock_key="k",
        error_class="E",
        error_message=message,
    )

    (job,) = told(host, "/index.json")["jobs"]

    assert job["error"]["message"].endswith("@db is away")
    assert "hunter2" not in str(job)
    assert {"payload", "result", "lock_key", "id"}.isdisjoint(job)


# -- one job ------------------------------------------------------------------------------------


def test_a_program_follows_a_job_from_the_first_line_to_the_end(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "LINES", 3)
    uuid = add_job(host.runtime, "running", result=None)
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 8)])
    path: str | None = f"/{uuid}.json?after_seq=0"
    waits, lines, answer = list[float](), list[str](), dict[str, Any]()

    while path is not None:
        answer = told(host, path)
        lines += [line["message"] for line in answer["log"]["lines"]]
        path = answer["next"]
        waits.append(answer["next_in"])
        if len(waits) == 4:
            add_lines(host.runtime, uuid, ["line 8"])
            end(host.runtime, uuid, result_json=json.dumps({"rows": 3}))

    assert lines == [f"line {n}" for n in range(1, 9)]
    assert waits == [0.0, 0.0, 1.0, 2.0, None]
    assert answer["job"]["status"] == "succeeded"
    assert answer["result"] == {"rows": 3}


def test_without_a_cursor_there_are_no_lines_and_the_link_leads_to_the_next(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one", "two"])

    answer = told(host, f"/{uuid}.json")
    add_lines(host.runtime, uuid, ["three"])

    assert answer["log"] == {"last_seq": 2, "lines": []}
    assert [line["message"] for line in told(host, answer["next"])["log"]["lines"]] == ["three"]


@pytest.mark.parametrize("after", ["3", "99", "9223372036854775807", "9" * 19])
def test_a_cursor_beyond_the_end_is_healed(host: Host, after: str) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["1", "2", "3"])

    answer = told(host, f"/{uuid}.json?after_seq={after}")

    assert answer["log"]["lines"] == []
    assert answer["next"].endswith("after_seq=3")


def test_lines_that_were_removed_are_not_waited_for(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded")
    add_lines(host.runtime, uuid, ["1", "2", "3"])
    logs = host.runtime.database.tables.logs
    host.runtime.database.run(lambda connection: connection.execute(logs.delete()))

    assert told(host, f"/{uuid}.json?after_seq=0")["next"] is None


def test_the_interval_is_not_below_the_floor(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_POLL_MIN=7)
    uuid = add_job(host.runtime, "running")

    assert told(host, f"/{uuid}.json")["next_in"] == 7


def test_times_are_utc_in_iso_8601(host: Host) -> None:
    job = told(host, f"/{add_job(host.runtime, 'succeeded')}.json")["job"]

    for name in ("created_at", "queued_at", "started_at", "finished_at", "updated_at"):
        assert datetime.fromisoformat(job[name]).utcoffset() == timedelta(0), name


def test_files_have_an_address_for_who_may_download_them(
    make_host: MakeHost, tmp_path: Any
) -> None:
    refused = set[str]()
    host = make_host(
        authorize=lambda action, job: action not in refused,
        JOBRUNNER_FILES_DIR=str(tmp_path / "files"),
    )
    uuid = add_job(host.runtime, "succeeded")
    keep(host, uuid, "rows.csv", b"1,2")

    (file,) = told(host, f"/{uuid}.json")["files"]
    with host.client().get(file["url"]) as download:
        assert download.data == b"1,2"
    refused.add("download")
    (file,) = told(host, f"/{uuid}.json")["files"]

    assert file["url"] is None
    assert file["name"] == "rows.csv"


def test_secrets_are_masked_and_the_rest_is_as_it_was(host: Host) -> None:
    given = {"password": "hunter2", "order": 2**60, "rate": 0.5, "text": '<b>"ä'}
    uuid = add_job(
        host.runtime,
        "failed",
        payload=given,
        result={"token": "hunter2", "rows": [1]},
        error_class="E",
        error_message="password=hunter2",
        title="api_key=hunter2",
    )
    add_lines(host.runtime, uuid, [{"message": "x", "context": {"secret": "hunter2", "n": 1}}])

    answer = told(host, f"/{uuid}.json?after_seq=0")
    download = host.get(f"/{uuid}/log.ndjson").text

    assert "hunter2" not in json.dumps(answer) + download
    assert {**answer["payload"], "password": "hunter2"} == given
    assert answer["result"]["rows"] == [1]
    assert answer["log"]["lines"][0]["context"]["n"] == 1


def test_each_part_needs_its_own_action(make_host: MakeHost) -> None:
    host = make_host(authorize=allow("view_job"))
    uuid = add_job(host.runtime, "running", payload={"a": "given"}, result="returned")
    add_lines(host.runtime, uuid, ["a line to hide"])

    answer = told(host, f"/{uuid}.json?after_seq=0")

    assert {"log", "payload", "result"}.isdisjoint(answer)
    assert not {"given", "returned", "a line to hide"} & set(str(answer).split("'"))
    # The link is there all the same, and says nothing about the lines.
    assert answer["next"].endswith("after_seq=1")


def test_the_download_goes_on_after_a_line(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 6)])

    lines = host.get(f"/{uuid}/log.ndjson?after_seq=3").text.splitlines()

    assert [json.loads(line)["seq"] for line in lines] == [4, 5]
    assert host.get(f"/{uuid}/log.ndjson?after_seq=99").data == b""
    assert host.get(f"/{uuid}/log.ndjson?after_seq=x").status_code == 400


# -- supervisors and types ----------------------------------------------------------------------


def test_supervisors_and_the_queue(host: Host) -> None:
    add_supervisor(host, types=("reports.*",))
    uuid = add_job(host.runtime, "running", dispatch_by="s1", claim_mode="trusted")
    pulled(host, job_type="mail.send")

    answer = told(host, "/supervisors.json")
    (one,), (group,) = answer["supervisors"], answer["waiting"]

    assert (one["state"], one["slots"], one["slots_used"]) == ("working", 2, 1)
    assert one["jobs"] == [f"/jobs/{uuid}.json"]
    assert (group["job_type"], group["number"], group["more"]) == ("mail.send", 1, False)
    assert "mail.send" in group["untaken"]


def test_a_supervisor_that_is_gone_is_told(host: Host) -> None:
    add_supervisor(host, silent=3600)

    assert told(host, "/supervisors.json")["supervisors"][0]["state"] == "not_seen"


def test_types_in_figures(host: Host) -> None:
    for _ in range(3):
        add_job(host.runtime, "succeeded", ran=2.0)
    add_job(host.runtime, "failed", error_class="E", error_reason_code="handler_raised")

    (one,) = told(host, "/types.json")["types"]

    assert (one["runs"], one["failures"], one["failure_rate"]) == (4, 1, 0.25)
    assert one["run_p50"] == 2.0
    assert one["errors"] == [{"class": "E", "reason_code": "handler_raised", "number": 1}]


def test_a_scope_holds_for_programs(make_host: MakeHost) -> None:
    host = make_host()
    host.jobs.scope(lambda: "ben")
    add_supervisor(host)
    for owner in ("ben", "anna"):
        row: dict[str, Any] = {"owner": owner, "actor": owner, "job_type": f"type.of.{owner}"}
        add_job(host.runtime, "running", claim_mode="trusted", dispatch_by="s1", **row)
        add_job(host.runtime, "failed", **row)
        pulled(host, **row)

    text = "".join(host.get(path).text for path in PATHS[:3])

    assert "ben" in text
    assert "anna" not in text
    assert sum(told(host, "/index.json")["counts"].values()) == 3
    (one,) = told(host, "/supervisors.json")["supervisors"]
    assert len(one["jobs"]) == 1
    assert one["slots_used"] is None


# -- asking again -------------------------------------------------------------------------------


def test_what_is_known_already_is_a_304_until_something_changes(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    for path in [path.format(uuid=uuid) for path in PATHS[:4]]:
        first = host.get(path)
        etag = {"If-None-Match": first.headers["ETag"]}
        again = host.client().get(f"/jobs{path}", headers=etag)

        assert first.headers["ETag"].startswith('W/"')
        assert (again.status_code, again.data) == (304, b""), path
        assert again.headers["ETag"] == first.headers["ETag"]
        assert again.headers["Cache-Control"] == "no-store"
    for path in ("/index.json", f"/{uuid}.json"):
        etag = {"If-None-Match": host.get(path).headers["ETag"]}
        change(host.runtime, uuid, progress_done=len(path))
        assert host.client().get(f"/jobs{path}", headers=etag).status_code == 200


def test_what_one_may_see_no_more_is_no_304(make_host: MakeHost) -> None:
    refused = set[str]()
    host = make_host(authorize=lambda action, job: action not in refused)
    uuid = add_job(host.runtime, "running", payload={"a": 1})
    etag = {"If-None-Match": host.get(f"/{uuid}.json").headers["ETag"]}

    refused.add("view_payload")
    assert host.client().get(f"/jobs/{uuid}.json", headers=etag).status_code == 200
    refused.add("view_job")
    assert host.client().get(f"/jobs/{uuid}.json", headers=etag).status_code == 404


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_a_refusal_is_a_problem_in_json(make_host: MakeHost, path: str) -> None:
    hosts = make_host(authorize=None), make_host(authorize=allow()), make_host()
    missing = path.format(uuid=MISSING)
    for host, status in zip(hosts, (403, 404 if "uuid" in path else 403, 404), strict=True):
        if status == 404 and "uuid" not in path:
            continue
        answer = host.get(missing)
        assert answer.status_code == status
        assert answer.mimetype == "application/problem+json"
        assert answer.json["status"] == status
        assert answer.json["type"] == "about:blank"
        assert answer.json["title"]
    assert "authorize" not in hosts[0].get(missing).text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/index.json?status=gone", "status"),
        ("/index.json?after=n5", "after"),
        ("/index.json?after=x", "after"),
        ("/index.json?limit=-1", "limit"),
        ("/{uuid}.json?after_seq=-1", "after_seq"),
    ],
)
def test_a_wrong_parameter_is_named(host: Host, path: str, name: str) -> None:
    answer = host.get(path.format(uuid=add_job(host.runtime, "running")))

    assert answer.status_code == 400
    assert answer.json["detail"].startswith(f"The parameter {name} must be")


def test_in_debug_mode_the_lines_to_add_are_told(make_host: MakeHost) -> None:
    host = make_host(authorize=None)
    host.app.debug = True

    assert "@jobs.authorize" in host.get("/index.json").json["detail"]


def test_a_database_that_is_away_is_a_503_that_says_when_to_ask_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise DatabaseAway("gone")

    monkeypatch.setattr(host.runtime.listing, "find", away)

    answer = host.get("/index.json")

    assert (answer.status_code, answer.mimetype) == (503, "application/problem+json")
    assert answer.headers["Retry-After"] == "5"
    assert "cannot be reached" in answer.json["detail"]


def test_the_answer_of_the_application_itself_passes(make_host: MakeHost) -> None:
    host = make_host(authorize=lambda action, job: redirect("/login", 303))

    assert host.get("/index.json").location == "/login"


def test_behind_a_prefix_every_link_has_it(make_host: MakeHost) -> None:
    host = make_host()
    uuid = add_job(host.runtime, "running")
    add_job(host.runtime, "running")

    def below(path: str) -> Any:
        return host.client().get(path, environ_overrides={"SCRIPT_NAME": "/shop"}).json

    page, one = below("/jobs/index.json?limit=1"), below(f"/jobs/{uuid}.json")

    links = [page["next"], one["next"], one["job"]["url"], one["job"]["json_url"]]
    assert all(link.startswith("/shop/jobs/") for link in links), links
