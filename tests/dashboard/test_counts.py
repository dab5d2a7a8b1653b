"""Counts are kept for five seconds, for one view and one owner, and not past a deed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flask_jobrunner.dashboard import counts
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, end
from tests.dashboard.test_actions import post


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the counts go by."""
    now = [1000.0]
    monkeypatch.setattr(counts, "monotonic", lambda: now[0])
    return now


def shown(host: Host, query: str = "") -> dict[str, int]:
    found = re.findall(r">([A-Z][a-z]+) <b>(\d+)</b>", host.get(f"/{query}").text)
    return {word: int(number) for word, number in found if number != "0"}


def test_they_are_kept_for_five_seconds(host: Host, clock: list[float]) -> None:
    uuid = add_job(host.runtime, "running")
    assert shown(host) == {"All": 1, "Running": 1}
    end(host.runtime, uuid)

    clock[0] += 4.9
    assert shown(host) == {"All": 1, "Running": 1}
    clock[0] += 0.2
    assert shown(host) == {"All": 1, "Succeeded": 1}


def test_a_new_job_and_another_filter_have_their_own(host: Host, clock: list[float]) -> None:
    add_job(host.runtime, "running", job_type="a")
    assert shown(host) == {"All": 1, "Running": 1}
    add_job(host.runtime, "failed", job_type="b")

    assert shown(host) == {"All": 2, "Running": 1, "Failed": 1}
    assert shown(host, "?type=b") == {"All": 1, "Failed": 1}
    assert shown(host, "?type=a") == {"All": 1, "Running": 1}


def test_nobody_is_shown_the_counts_of_others(make_host: MakeHost, clock: list[float]) -> None:
    host, owner = make_host(), [""]
    host.jobs.scope(lambda: owner[0] or None)
    add_job(host.runtime, "failed", owner="ann")
    add_job(host.runtime, "running", owner="ben")

    told = {}
    for owner[0] in ("ann", "ben", "eve", ""):
        told[owner[0]] = shown(host)
    assert told == {
        "ann": {"All": 1, "Failed": 1},
        "ben": {"All": 1, "Running": 1},
        "eve": {},
        "": {"All": 2, "Failed": 1, "Running": 1},
    }


def test_a_deed_makes_them_new(host: Host, clock: list[float]) -> None:
    uuid = add_job(host.runtime, "queued")
    assert shown(host) == {"All": 1, "Queued": 1}

    assert post(host, f"/{uuid}/cancel").status_code == 303
    assert shown(host) == {"All": 1, "Cancelled": 1}


def test_the_views_that_are_kept_are_bounded(
    host: Host, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "KEPT", 3)
    for number in range(10):
        host.get(f"/?type=t{number}")

    kept: Any = host.app.extensions["jobrunner_counts"]
    assert len(kept.by_view) == 3
