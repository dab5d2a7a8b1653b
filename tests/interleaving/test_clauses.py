"""Which clause refuses: the first transaction changes one column only, all else stays as asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flask_jobrunner.model.records import Claim, Outcome
from flask_jobrunner.recovery.verdict import verdict
from tests.helpers.stores import (
    ELSEWHERE,
    Store,
    change,
    everything,
    lines,
    owned,
    queue,
    start,
    try_claim,
)
from tests.interleaving.holding import Call, held


def finishes(store: Store, won: Claim) -> Call:
    return lambda found: found.endings.finish(won.fence, Outcome(status="succeeded"))


def logs(store: Store, won: Claim) -> Call:
    return lambda found: found.ownership.beat(won.fence, lines=lines("a"), last_seq=0)


def renews(store: Store, won: Claim) -> Call:
    return lambda found: found.ownership.beat(won.fence)


def stops(store: Store, won: Claim) -> Call:
    return lambda found: found.ownership.set_stop_reason(won.fence, "stall")


def sweeps(store: Store, won: Claim) -> Call:
    seen = owned(store, won.fence.job_id)
    return lambda found: found.endings.end_dead(seen, verdict(seen, {"signal": 9}))


def asks(store: Store, won: Claim) -> Call:
    return lambda found: found.jobs.request_cancel(won.fence.job_id, 1, None)


def takes(store: Store, won: Claim) -> Call:
    job = queue(store)
    change(store, job.id, title="queued")
    return lambda found: try_claim(found, job)


OWNERS = ("worker_token", "attempt", "status")
CLAUSES: dict[Callable[[Store, Claim], Call], tuple[str, ...]] = {
    finishes: (*OWNERS, "log_seq"),
    logs: (*OWNERS, "log_seq"),
    renews: OWNERS,
    stops: (*OWNERS, "stop_reason"),
    sweeps: (*OWNERS, "lease_until", "row_version"),
    asks: ("attempt", "status"),
    takes: ("attempt", "status", "worker_token_hash", "claim_deadline", "claim_mode", "revision"),
}
OTHER: dict[str, Any] = {
    "worker_token": "another",
    "worker_token_hash": "f" * 64,
    "attempt": 2,
    "status": "cancel_requested",
    "log_seq": 7,
    "lease_until": 5,
    "row_version": 99,
    "stop_reason": "run_timeout",
    "claim_deadline": 1,
    "claim_mode": "trusted",
    "revision": "r2",
}


def last_id(store: Store) -> int:
    return max(int(job["id"]) for job in everything(store)["jobrun_jobs"])


@pytest.mark.parametrize(
    ("deed", "column"),
    [(deed, column) for deed, columns in CLAUSES.items() for column in columns],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_one_column_that_changed_while_it_waited_refuses(
    store: Store, deed: Callable[[Store, Claim], Call], column: str
) -> None:
    won = start(store, worker=ELSEWHERE)
    second = deed(store, won)
    job_id, other = last_id(store), OTHER[column]
    if column == "status" and deed in (finishes, logs, renews, stops):
        # An owner may write under both statuses of its own.
        values = {"status": "interrupted", "finished_at": 5}
    else:
        values = {column: other}
    _, told = held(store, lambda found: change(found, job_id, **values), second)
    assert not told
    after = next(job for job in everything(store)["jobrun_jobs"] if job["id"] == job_id)
    assert after.items() >= values.items()


@pytest.mark.parametrize("deed", CLAUSES, ids=lambda deed: deed.__name__)
def test_a_column_that_nobody_asks_about_refuses_nothing(
    store: Store, deed: Callable[[Store, Claim], Call]
) -> None:
    """The other half: it is not the waiting that refuses."""
    won = start(store, worker=ELSEWHERE)
    second = deed(store, won)
    job_id = last_id(store)
    _, told = held(store, lambda found: change(found, job_id, title="another"), second)
    assert told
