"""The claim: every clause by itself, one winner, and the end of the window."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from flask_jobrunner.model.records import Claim
from tests.helpers.stores import (
    ELSEWHERE,
    Store,
    assert_sound,
    change,
    claim,
    everything,
    history,
    lines,
    owned,
    queue,
    row,
    start,
    stopped_clock,
    try_claim,
)

MICROSECONDS = 1_000_000


def test_a_claim_makes_an_owner(store: Store) -> None:
    job = queue(store, queue_budget=60.0, revision="r1")
    won = claim(store, job, token="secret", worker=ELSEWHERE, revision="r1")

    assert (won.fence.job_id, won.fence.attempt, won.fence.token) == (job.id, 1, "secret")
    after = row(store, job.id)
    assert after["status"] == "running"
    assert after["worker_token"] == "secret"
    assert after["worker_token_hash"] is after["claim_deadline"] is after["queue_deadline"] is None
    assert after["started_at"] == after["heartbeat_at"] == after["updated_at"] == won.claimed_at
    assert after["lease_until"] == after["started_at"] + round(store.lease * MICROSECONDS)
    assert after["row_version"] == 2
    assert after["attempt"] == 1
    assert owned(store, job).worker == ELSEWHERE
    assert won.owned.worker == ELSEWHERE
    assert history(store, job.id) == [("start", None, "queued"), ("claim", "queued", "running")]

    (attempt,) = store.attempts.of(job.id)
    assert attempt.id == won.attempt_id
    assert (attempt.attempt, attempt.mode, attempt.revision) == (1, "token", "r1")
    assert attempt.worker == ELSEWHERE
    assert attempt.ended_at is attempt.handler_started_at is None
    assert attempt.claimed_at == owned(store, job).job.started_at


@pytest.mark.parametrize(
    ("job_values", "envelope_values"),
    [
        ({}, {"credential": "cd" * 32}),
        ({}, {"credential": "AB" * 32}),
        ({}, {"attempt": 2}),
        ({}, {"claim_mode": "trusted"}),
        ({}, {"job_id": 10**9}),
        ({"claim_mode": "trusted"}, {}),
        ({"revision": "r1"}, {}),
        ({"revision": "r1"}, {"revision": "R1"}),
        ({"revision": "r1"}, {"revision": "r2"}),
        ({}, {"revision": "r1"}),
        ({"credential_hash": None}, {}),
    ],
)
def test_each_clause_refuses_by_itself(
    store: Store, job_values: dict[str, Any], envelope_values: dict[str, Any]
) -> None:
    job = queue(store, **job_values)
    dump = everything(store)
    assert try_claim(store, job, **envelope_values) is None
    assert everything(store) == dump


@pytest.mark.parametrize("status", ["running", "cancel_requested", "failed", "lost"])
def test_a_status_refuses_by_itself(store: Store, status: str) -> None:
    """Even if a credential had been left on the row."""
    job = queue(store)
    ended = None if status in {"running", "cancel_requested"} else 1
    change(store, job.id, status=status, finished_at=ended)
    dump = everything(store)
    assert dump["jobrun_jobs"][0]["worker_token_hash"] is not None
    assert try_claim(store, job) is None
    assert everything(store) == dump


def test_a_pinned_job_and_its_revision(store: Store) -> None:
    job = queue(store, revision="r1")
    assert try_claim(store, job, revision="r1") is not None


@pytest.mark.parametrize(("late", "wins"), [(-1, True), (0, False), (1, False)])
def test_the_deadline_itself_is_too_late(store: Store, late: int, wins: bool) -> None:
    job = queue(store)
    deadline = row(store, job.id)["claim_deadline"]
    assert deadline == row(store, job.id)["created_at"] + 30 * MICROSECONDS
    dump = everything(store)
    with stopped_clock(store, deadline + late):
        won = try_claim(store, job)
        assert (won is not None) == wins
        if not wins:
            assert everything(store) == dump
            # What the claim refuses the deadline may end: there is no instant that is neither.
            assert store.jobs.fail_queued(
                job.id, 1, "launch_timeout", message="", deadline="claim_deadline"
            )
        else:
            assert not store.jobs.fail_queued(
                job.id, 1, "launch_timeout", message="", deadline="claim_deadline"
            )


def test_a_credential_opens_once(store: Store) -> None:
    job = queue(store)
    claim(store, job)
    dump = everything(store)
    assert try_claim(store, job) is None
    # Not even when the status is turned back: the hash is gone.
    change(store, job.id, status="queued", worker_token=None)
    assert try_claim(store, job) is None
    assert len(store.attempts.of(job.id)) == len(dump["jobrun_attempts"]) == 1


def test_a_claim_that_is_sent_again_is_the_same_claim(store: Store) -> None:
    job = queue(store)
    won = claim(store, job, token="mine")
    again = try_claim(store, job, token="mine")
    assert again is not None
    assert (again.fence, again.attempt_id, again.claimed_at) == (
        won.fence,
        won.attempt_id,
        won.claimed_at,
    )
    assert len(store.attempts.of(job.id)) == 1
    assert len(store.events.of(job.id)) == 2
    assert try_claim(store, job, token="others") is None


def test_the_fence_number_grows_with_every_claim(store: Store) -> None:
    first, second = claim(store), claim(store)
    assert second.attempt_id > first.attempt_id


@pytest.mark.parametrize("tries", range(3))
def test_many_claim_at_once_and_one_wins(store: Store, tries: int) -> None:
    job = queue(store)
    ready = threading.Barrier(20)

    def race(number: int) -> Claim | None:
        ready.wait()
        return try_claim(store, job, token=f"token {number}")

    with ThreadPoolExecutor(20) as threads:
        won = [found for found in threads.map(race, range(20)) if found is not None]
    assert len(won) == 1
    assert row(store, job.id)["worker_token"] == won[0].fence.token
    assert len(store.attempts.of(job.id)) == 1
    assert history(store, job.id)[1:] == [("claim", "queued", "running")]


def test_a_claim_against_its_deadline_has_one_winner(store: Store) -> None:
    """What the launcher was told is what the row says, however close they come."""
    outcomes = set()
    for _ in range(30):
        job = queue(store, claim_window=0.0)
        # The window ends some microseconds from now, while both are on their way.
        change(store, job.id, claim_deadline=row(store, job.id)["created_at"] + 15_000)
        ready = threading.Barrier(2)

        def claims(job: Any = job, ready: threading.Barrier = ready) -> bool:
            ready.wait()
            return try_claim(store, job) is not None

        def expires(job: Any = job, ready: threading.Barrier = ready) -> bool:
            ready.wait()
            for _ in range(200):
                if store.jobs.fail_queued(
                    job.id, 1, "launch_timeout", message="", deadline="claim_deadline"
                ):
                    return True
                if row(store, job.id)["status"] != "queued":
                    return False
            return False

        with ThreadPoolExecutor(2) as threads:
            claimed, expired = threads.submit(claims), threads.submit(expires)
        status = row(store, job.id)["status"]
        assert (claimed.result(), expired.result(), status) in {
            (True, False, "running"),
            (False, True, "failed"),
        }
        outcomes.add(status)
    assert outcomes  # either may be the faster one; both never


def test_a_late_child_of_an_earlier_attempt_claims_nothing(store: Store) -> None:
    job = queue(store)
    store.jobs.fail_queued(job.id, 1, "launch_timeout", message="")
    store.jobs.requeue(
        owned(store, job).job,
        credential_hash="f" * 64,
        claim_window=30.0,
        queue_budget=None,
        revision=None,
        config_digest="",
        actor=None,
    )
    dump = everything(store)
    assert try_claim(store, job) is None
    assert try_claim(store, replace(job, attempt=2)) is None
    assert everything(store) == dump


# -- the start marker -------------------------------------------------------------------------


def test_the_start_marker_is_set_once(store: Store) -> None:
    won = claim(store)
    job_id = won.fence.job_id
    assert store.ownership.mark_started(won.fence, 60.0)
    after = row(store, job_id)
    assert after["run_deadline"] == after["handler_started_at"] + 60 * MICROSECONDS
    assert after["row_version"] == 3
    assert store.attempts.of(job_id)[0].handler_started_at is not None

    # Sent again by the same owner: known, and nothing moves.
    dump = everything(store)
    assert store.ownership.mark_started(won.fence, 5.0)
    assert everything(store) == dump


def test_no_budget_no_deadline(store: Store) -> None:
    won = start(store)
    assert row(store, won.fence.job_id)["run_deadline"] is None


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    "change_of", [{"token": "other"}, {"attempt": 2}, {"job_id": 10**9}], ids=str
)
def test_the_start_marker_is_fenced(store: Store, change_of: dict[str, Any], marked: bool) -> None:
    won = start(store) if marked else claim(store)
    dump = everything(store)
    assert not store.ownership.mark_started(replace(won.fence, **change_of), None)
    assert everything(store) == dump


def test_no_start_after_the_job_was_taken_away(store: Store) -> None:
    """Claimed, stopped for longer than anybody waits, judged, and then it wakes."""
    won = claim(store)
    change(store, won.fence.job_id, status="lost", finished_at=1)
    dump = everything(store)
    assert not store.ownership.mark_started(won.fence, None)
    assert everything(store) == dump


def test_a_cancel_before_the_marker_does_not_forbid_it(store: Store) -> None:
    won = claim(store)
    store.jobs.request_cancel(won.fence.job_id, 1, None)
    assert store.ownership.mark_started(won.fence, None)
    store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    assert_sound(store)
