"""Every deed is in the history, in the log and in a signal, with who did it; a refused one in none.

The deeds are those of the URL map: a new address that takes a POST fails here until it has a row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from flask_jobrunner import action_taken
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, change
from tests.dashboard.test_actions import OURS
from tests.dashboard.test_supervisors import add_supervisor

NO_DEED = {"prefs"}
PULLED: dict[str, Any] = {"job_type": "import", "claim_mode": "trusted"}
Deed = Callable[[Host], tuple[str, dict[str, str]]]


def on_a_job(status: str, deed: str) -> Deed:
    return lambda host: (f"/{add_job(host.runtime, status, **PULLED)}/{deed}", {})


def forced(host: Host) -> tuple[str, dict[str, str]]:
    uuid = add_job(host.runtime, "cancel_requested")
    change(host.runtime, uuid, cancel_requested_at=1)
    return f"/{uuid}/force-stop", {}


def many(status: str, deed: str) -> Deed:
    def seed(host: Host) -> tuple[str, dict[str, str]]:
        uuid = add_job(host.runtime, status, **PULLED)
        job = host.runtime.jobs.get(uuid)
        assert job is not None
        return f"/bulk/{deed}", {"until": str(job.id)}

    return seed


def run(host: Host) -> tuple[str, dict[str, str]]:
    add_job(host.runtime, "succeeded", **PULLED)
    return "/types/import/run", {}


def drained(host: Host) -> tuple[str, dict[str, str]]:
    return f"/supervisors/{add_supervisor(host)}/drain", {}


def resumed(host: Host) -> tuple[str, dict[str, str]]:
    path, _ = drained(host)
    host.runtime.drains.drain("s1", host.runtime.supervisors.all()[0].process, "ben")
    return path, {"resume": "1"}


# Endpoint, what it is done to, the action in the log and the signal, the one in the history.
DEEDS: list[tuple[str, Deed, str, str]] = [
    ("cancel", on_a_job("running", "cancel"), "cancel", "cancel"),
    ("requeue", on_a_job("failed", "requeue"), "requeue", "requeue"),
    ("force_stop", forced, "force_stop", "force_stop"),
    ("again", on_a_job("succeeded", "again"), "start", "enqueue"),
    ("bulk_cancel", many("running", "cancel"), "cancel", "cancel"),
    ("bulk_requeue", many("failed", "requeue"), "requeue", "requeue"),
    ("run_type", run, "start", "enqueue"),
    ("drain", drained, "drain", "drain"),
    ("drain", resumed, "resume", "resume"),
]
NAMES = [f"{endpoint}-{action}" for endpoint, _, action, _ in DEEDS]


def events(host: Host) -> list[tuple[str, str | None]]:
    table = host.runtime.database.tables.events
    rows = host.runtime.database.rows(table.select().order_by(table.c.id))
    return [(row["action"], row["actor"]) for row in rows]


class Heard:
    """What receivers of the signal were told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def __call__(self, _sender: Any, **values: Any) -> None:
        self.told.append(values)


def acting(host: Host) -> Heard:
    heard = Heard()
    host.jobs.actor(lambda: "carla\nroot")
    host.jobs.handler("import", manual=True)(print)
    action_taken.connect(heard, host.app)
    return heard


def test_every_address_that_takes_a_post_has_a_row(host: Host) -> None:
    found = {
        rule.endpoint.rpartition(".")[2]
        for rule in host.app.url_map.iter_rules()
        if rule.endpoint.startswith("jobrunner.") and "POST" in (rule.methods or ())
    }

    assert {endpoint for endpoint, *_ in DEEDS} == found - NO_DEED


@pytest.mark.parametrize(("_endpoint", "deed", "action", "event"), DEEDS, ids=NAMES)
def test_a_deed_is_told_three_times(
    make_host: MakeHost,
    caplog: pytest.LogCaptureFixture,
    _endpoint: str,
    deed: Deed,
    action: str,
    event: str,
) -> None:
    host = make_host(JOBRUNNER_FORCE_STOP=True)
    heard = acting(host)
    path, data = deed(host)
    before = events(host)
    caplog.set_level(logging.INFO, "flask_jobrunner.audit")

    answer = host.client().post(f"/jobs{path}", data=data, headers=OURS)

    assert answer.status_code in (200, 303)
    assert events(host)[len(before) :] == [(event, "carla\nroot")]
    (signal,) = heard.told
    assert (signal["action"], signal["actor"]) == (action, "carla\nroot")
    (line,) = [record.getMessage() for record in caplog.records if "audit" in record.name]
    what = "supervisor s1" if signal["job"] is None else f"job {signal['job'].uuid}"
    assert line == f"{action} by carla\nroot: {what}".replace("\n", "\u240a")
    assert (signal["supervisor"] is None) == (signal["job"] is not None)


@pytest.mark.parametrize(("_endpoint", "deed", "_action", "_event"), DEEDS, ids=NAMES)
def test_a_refused_deed_leaves_nothing(
    make_host: MakeHost,
    caplog: pytest.LogCaptureFixture,
    _endpoint: str,
    deed: Deed,
    _action: str,
    _event: str,
) -> None:
    host = make_host(
        JOBRUNNER_FORCE_STOP=True, authorize=lambda action, job: action.startswith("view_")
    )
    heard = acting(host)
    path, data = deed(host)
    before = events(host)
    caplog.set_level(logging.INFO, "flask_jobrunner.audit")

    answer = host.client().post(f"/jobs{path}", data=data, headers=OURS)

    assert answer.status_code in (403, 409)
    assert events(host) == before
    assert heard.told == []
    assert [record for record in caplog.records if "audit" in record.name] == []


@pytest.mark.parametrize(("_endpoint", "deed", "_action", "_event"), DEEDS, ids=NAMES)
def test_asking_leaves_nothing(
    make_host: MakeHost, _endpoint: str, deed: Deed, _action: str, _event: str
) -> None:
    host = make_host(JOBRUNNER_FORCE_STOP=True)
    heard = acting(host)
    path, data = deed(host)
    before = events(host)

    assert host.client().get(f"/jobs{path}", query_string=data).status_code == 200
    assert events(host) == before
    assert heard.told == []


def test_a_second_click_is_no_second_deed(host: Host) -> None:
    heard, uuid = acting(host), add_job(host.runtime, "running")

    for _ in range(2):
        answer = host.client().post(f"/jobs/{uuid}/cancel", headers=OURS)
        assert answer.status_code == 303

    assert [told["action"] for told in heard.told] == ["cancel"]
    assert [action for action, _ in events(host)].count("cancel") == 1
