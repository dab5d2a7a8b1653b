"""A change needs a POST from one of our own pages, on every route; twice is once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job
from tests.dashboard.test_csrf import REFUSED
from tests.safety.ground import belongings, dump
from tests.safety.routes import SAME_ORIGIN, call, calls


@pytest.mark.parametrize("headers", REFUSED)
def test_no_route_takes_a_form_from_elsewhere(host: Host, headers: dict[str, str]) -> None:
    mine = belongings(host, "anna", "anna")
    before = dump(host)
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    asked = set[str]()
    for status in ("running", "failed"):
        for one in calls(host, mine[status], "POST"):
            # A form's own headers are no proof: any page can have them sent.
            for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json"):
                answer = host.client().post(
                    one.path,
                    base_url="http://shop.example.org/",
                    headers=named,
                    data='{"until": 9}' if "form" not in kind else one.form,
                    content_type=kind,
                )
                assert answer.status_code == 403, (one, kind)
            asked.add(one.view)

    assert asked >= {"cancel", "requeue", "force_stop", "again", "bulk_cancel", "prefs"}
    assert dump(host) == before


def test_to_look_changes_nothing_but_that_a_download_is_noted(any_host: Host) -> None:
    mine = belongings(any_host, "anna", "anna")
    before = dump(any_host)

    for uuid in mine.values():
        for one in calls(any_host, uuid, "GET", "HEAD", "OPTIONS"):
            if one.view != "artifact" or one.method != "GET":
                assert one.ask(any_host).status_code < 500, one

    assert dump(any_host) == before


DEEDS = [("running", "cancel", (303, 303)), ("queued", "cancel", (303, 409))]


@pytest.mark.parametrize(("status", "view", "answers"), DEEDS)
def test_a_cancel_that_is_sent_twice_is_one(
    any_host: Host, status: str, view: str, answers: tuple[int, ...]
) -> None:
    uuid = add_job(any_host.runtime, status)

    one = call(any_host.app, view, uuid, "POST")
    assert tuple(one.ask(any_host, SAME_ORIGIN).status_code for _ in answers) == answers

    assert actions(any_host, uuid).count("cancel") == 1


def test_a_requeue_that_is_sent_twice_is_one_attempt(any_host: Host) -> None:
    any_host.jobs.handler("import")(print)
    uuid = add_job(any_host.runtime, "failed", claim_mode="trusted", job_type="import")
    one = call(any_host.app, "requeue", uuid, "POST")

    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(lambda _: one.ask(any_host, SAME_ORIGIN).status_code, range(2)))

    assert sorted(answers) == [303, 409]
    job = any_host.runtime.jobs.get(uuid)
    assert job is not None
    assert (job.status, job.attempt) == ("queued", 2)
    assert actions(any_host, uuid).count("requeue") == 1


def test_a_bulk_deed_that_is_sent_twice_finds_nothing_left(any_host: Host) -> None:
    uuids = [add_job(any_host.runtime, "queued") for _ in range(3)]
    one = call(any_host.app, "bulk_cancel", uuids[0], "POST")

    assert [one.ask(any_host, SAME_ORIGIN).status_code for _ in range(2)] == [200, 409]
    assert [actions(any_host, uuid).count("cancel") for uuid in uuids] == [1, 1, 1]


def actions(host: Host, uuid: str) -> list[Any]:
    """What was done to a job."""
    job = host.runtime.jobs.get(uuid)
    assert job is not None
    return [event.action for event in host.runtime.events.of(job.id)]
