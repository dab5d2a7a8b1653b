"""Run now: types that people may start, without input, from the type's own page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from flask_jobrunner.caller import by_hand
from flask_jobrunner.repositories.listing import JobFilter
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.dashboard.test_actions import post, text_of

RUN = "/types/import/run"


def number_of_jobs(host: Host) -> int:
    return len(host.runtime.listing.find(JobFilter()).jobs)


def queued_before(host: Host, **values: Any) -> None:
    """The type's newest job went through the queue."""
    add_job(host.runtime, "succeeded", job_type="import", claim_mode="trusted", **values)


def test_it_asks_and_starts_through_the_queue_where_the_newest_one_went(host: Host) -> None:
    host.jobs.actor(lambda: "carla")
    host.jobs.handler("import", title="Import", manual=True)(print)
    queued_before(host)
    assert 'href="/jobs/types/import/run">Run now</a>' in host.get("/types/import").text
    assert "Run import now?" in text_of(host.get(RUN))
    assert number_of_jobs(host) == 1

    answer = post(host, RUN)

    assert answer.status_code == 303
    made = host.runtime.jobs.get(answer.location.rpartition("/")[2])
    assert made is not None
    assert (made.status, made.job_type, made.title) == ("queued", "import", "Import")
    assert (made.payload, made.actor, made.owner) == (None, "carla", None)


@pytest.mark.parametrize("pushed_before", [False, True])
def test_the_first_one_is_pushed_and_nobody_waits_for_it(
    host: Host, monkeypatch: pytest.MonkeyPatch, *, pushed_before: bool
) -> None:
    asked, real = list[dict[str, Any]](), host.jobs.enqueue
    host.jobs.handler("import", manual=True)(print)

    if pushed_before:
        queued_before(host)
        add_job(host.runtime, "succeeded", job_type="import")

    def start(_runtime: Any, job_type: str, **options: Any) -> Any:
        asked.append(options)
        return real(job_type)

    monkeypatch.setattr(by_hand, "start", start)

    assert post(host, RUN).status_code == 303
    assert [options["wait"] for options in asked] == [False]


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_type_that_needs_input_says_so(host: Host, method: str) -> None:
    def fields(payload: Mapping[str, Any]) -> int:
        if "rows" not in payload:
            raise ValueError("rows is missing")
        return int(payload["rows"])

    host.jobs.handler("import", manual=True, payload=fields)(print)

    answer = host.get(RUN) if method == "get" else post(host, RUN)

    assert answer.status_code == 409
    assert "It needs input" in text_of(answer)
    assert "rows is missing" in text_of(answer)
    assert number_of_jobs(host) == 0


@pytest.mark.parametrize("method", ["get", "post"])
def test_only_manual_types_that_are_there(host: Host, method: str) -> None:
    host.jobs.handler("import")(print)
    codes = {}
    for name in ("import", "nothing"):
        path = f"/types/{name}/run"
        answer = host.get(path) if method == "get" else post(host, path)
        codes[name] = answer.status_code

    assert codes == {"import": 409, "nothing": 404}
    assert "Run now" not in host.get("/types/import").text
    assert number_of_jobs(host) == 0


def test_it_is_offered_to_those_who_may_start(make_host: MakeHost) -> None:
    asked = list[tuple[str, Any]]()

    def authorize(action: str, job: Any) -> bool:
        asked.append((action, job))
        return action != "start"

    host = make_host(authorize=authorize)
    host.jobs.handler("import", manual=True)(print)

    assert "Run now" not in host.get("/types/import").text
    assert post(host, RUN).status_code == 403
    assert ("start", None) in asked
    assert number_of_jobs(host) == 0


def test_who_is_restricted_to_his_own_jobs_owns_it(make_host: MakeHost) -> None:
    host = make_host()
    host.jobs.scope(lambda: "ben")
    host.jobs.handler("import", manual=True)(print)
    queued_before(host, owner="anna")

    answer = post(host, RUN)

    made = host.runtime.jobs.get(answer.location.rpartition("/")[2])
    assert made is not None
    assert made.owner == "ben"
    assert host.client().get(answer.location).status_code == 200
