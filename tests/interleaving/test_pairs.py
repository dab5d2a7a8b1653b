"""Two who want the same job at the same time: the second waits, then sees what the first did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flask_jobrunner.model.records import Claim, Job, Outcome, OwnedJob
from flask_jobrunner.recovery.verdict import verdict
from flask_jobrunner.repositories.retention import RetentionRepository
from tests.helpers.pulled import candidate, pulled, reserve
from tests.helpers.stores import (
    ELSEWHERE,
    Store,
    assert_sound,
    change,
    claim,
    end_as,
    history,
    lines,
    messages,
    new_job,
    owned,
    queue,
    row,
    start,
    status_of,
    try_claim,
)
from tests.interleaving.holding import Call, held

DONE = Outcome(status="succeeded", result_json="1")


# Each makes a deed of what the test prepared: a queued job, or a claim with what a sweeper saw.


def takes(token: str) -> Callable[[Job], Call]:
    return lambda job: lambda store: try_claim(store, job, token=token) is not None


def cancels(job: Job) -> Call:
    return lambda store: store.jobs.cancel_queued(job.id, 1, "ann")


def fails(reason: str, deadline: str | None = None) -> Callable[[Job], Call]:
    return lambda job: (
        lambda store: store.jobs.fail_queued(job.id, 1, reason, message="No.", deadline=deadline)
    )


QUEUED: dict[str, tuple[Callable[[Job], Call], Callable[[Job], Call]]] = {
    "claim, claim": (takes("one"), takes("two")),
    "claim, cancel": (takes("one"), cancels),
    "cancel, claim": (cancels, takes("one")),
    "claim, launch failed": (takes("one"), fails("launch_failed")),
    "launch failed, claim": (fails("launch_failed"), takes("one")),
    "claim, queue timeout": (takes("one"), fails("queue_timeout", "queue_deadline")),
    "queue timeout, claim": (fails("queue_timeout", "queue_deadline"), takes("one")),
    "cancel, launch failed": (cancels, fails("launch_failed")),
}


@pytest.mark.parametrize("pair", QUEUED)
def test_of_two_that_move_a_queued_job_the_first_does(store: Store, pair: str) -> None:
    first, second = QUEUED[pair]
    job = queue(store, lock_key="k")
    change(store, job.id, queue_deadline=1)
    assert held(store, first(job), second(job)) == (True, False)
    ended = {"claim": "running", "cancel": "cancelled"}.get(pair.partition(",")[0], "failed")
    assert status_of(store, job.id)[0] == ended
    assert len(history(store, job.id)) == 2
    assert (store.jobs.holder("k") is not None) == (ended == "running")
    assert len(store.attempts.of(job.id)) == (ended == "running")
    assert_sound(store)


Deed = Callable[[Claim, OwnedJob], Call]


def ends(won: Claim, _seen: OwnedJob) -> Call:
    return lambda store: store.endings.finish(won.fence, DONE) is not None


def sweeps(_won: Claim, seen: OwnedJob) -> Call:
    judged = verdict(seen, {"signal": 9})
    return lambda store: store.endings.end_dead(seen, judged)


def marks(won: Claim, _seen: OwnedJob) -> Call:
    return lambda store: store.ownership.mark_started(won.fence, None)


def renews(won: Claim, _seen: OwnedJob) -> Call:
    return lambda store: store.ownership.beat(won.fence) is not None


def asks(won: Claim, _seen: OwnedJob) -> Call:
    return lambda store: store.jobs.request_cancel(won.fence.job_id, 1, "ann")


def forces(won: Claim, _seen: OwnedJob) -> Call:
    from_status: Any = "running"
    return lambda store: store.jobs.force_stop(won.fence.job_id, 1, from_status, "ann")


# Who goes first, who waits, what both are told, and what the job is then.
OWNED: dict[str, tuple[Deed, Deed, tuple[bool, bool], str]] = {
    "marker, sweep": (marks, sweeps, (True, False), "running"),
    "sweep, marker": (sweeps, marks, (True, False), "interrupted"),
    "finish, sweep": (ends, sweeps, (True, False), "succeeded"),
    "sweep, finish": (sweeps, ends, (True, False), "interrupted"),
    "finish, cancel": (ends, asks, (True, False), "succeeded"),
    "cancel, finish": (asks, ends, (True, True), "cancelled"),
    "finish, force": (ends, forces, (True, False), "succeeded"),
    "force, finish": (forces, ends, (True, True), "cancelled"),
    "renew, sweep": (renews, sweeps, (True, False), "running"),
    "sweep, renew": (sweeps, renews, (True, False), "interrupted"),
    "sweep, sweep": (sweeps, sweeps, (True, False), "interrupted"),
    "cancel, sweep": (asks, sweeps, (True, False), "cancel_requested"),
    "sweep, cancel": (sweeps, asks, (True, False), "interrupted"),
}


@pytest.mark.parametrize("pair", OWNED)
def test_of_two_that_move_an_owned_job(store: Store, pair: str) -> None:
    first, second, told, status = OWNED[pair]
    won = claim(store, queue(store, lock_key="k"), worker=ELSEWHERE)
    change(store, won.fence.job_id, lease_until=1)
    seen = owned(store, won.fence.job_id)
    assert held(store, first(won, seen), second(won, seen)) == told
    assert status_of(store, won.fence.job_id)[0] == status
    terminal = status not in ("running", "cancel_requested")
    assert (store.jobs.holder("k") is None) == terminal
    attempt = store.attempts.of(won.fence.job_id)[0]
    assert attempt.end_status == (status if terminal else None)
    assert_sound(store)


def test_a_result_that_is_sent_twice_at_once_is_written_once(store: Store) -> None:
    won = start(store)
    one, two = held(store, ends(won, won.owned), ends(won, won.owned))
    assert (one, two) == (True, True)
    assert [move[0] for move in history(store, won.fence.job_id)].count("finish") == 1
    assert len(messages(store, won.fence.job_id)) == 1


def test_two_that_log_for_one_owner_write_each_number_once(store: Store) -> None:
    """Two processes with one token, as after a fork: the second one's number is taken."""
    won = start(store)

    def logs(*texts: str) -> Call:
        return lambda found: found.ownership.beat(won.fence, lines=lines(*texts), last_seq=0)

    one, two = held(store, logs("first"), logs("second", "third"))
    assert one is not None
    assert two is None
    assert messages(store, won.fence.job_id) == [(1, "first")]


def requeues(job: Job, secret: str) -> Call:
    return lambda store: store.jobs.requeue(
        job,
        credential_hash=secret * 64,
        claim_window=30.0,
        queue_budget=None,
        revision=None,
        config_digest="",
        actor=None,
    )


def closes(job: Job) -> Call:
    return lambda store: store.jobs.close_lost(job.id, 1, "ann")


def ended_job(store: Store, status: str) -> Job:
    won = start(store, queue(store, lock_key="k"), worker=ELSEWHERE)
    end_as(store, won, status)
    return owned(store, won.fence.job_id).job


@pytest.mark.parametrize("status", ["failed", "lost"])
def test_two_requeues_make_one_attempt(store: Store, status: str) -> None:
    job = ended_job(store, status)
    assert held(store, requeues(job, "e"), requeues(job, "f")) == (True, False)
    found = row(store, job.id)
    assert (found["attempt"], found["worker_token_hash"]) == (2, "e" * 64)
    assert_sound(store)


@pytest.mark.parametrize("first", ["requeue", "close"])
def test_a_lost_job_is_requeued_or_closed(store: Store, first: str) -> None:
    job = ended_job(store, "lost")
    both = [requeues(job, "e"), closes(job)]
    one, two = both if first == "requeue" else both[::-1]
    assert held(store, one, two) == (True, False)
    found = row(store, job.id)
    assert (found["status"], found["attempt"]) == (
        ("queued", 2) if first == "requeue" else ("cancelled", 1)
    )
    assert_sound(store)


@pytest.mark.parametrize("first", ["requeue", "remove"])
def test_what_is_requeued_is_not_removed(store: Store, first: str) -> None:
    job = ended_job(store, "failed")
    change(store, job.id, finished_at=1)
    old = RetentionRepository(store.database).find("jobs", 60.0)[0]

    def removes(found: Store) -> bool:
        return RetentionRepository(found.database).remove_job(old)

    both = [requeues(job, "e"), removes]
    one, two = both if first == "requeue" else both[::-1]
    assert held(store, one, two) == (True, False)
    left = store.jobs.get(job.id)
    assert (left is not None) == (first == "requeue")
    assert left is None or (left.status, left.attempt) == ("queued", 2)
    assert_sound(store)


def test_a_lock_key_is_given_once(store: Store) -> None:
    def adds(owner: str) -> Call:
        return lambda found: found.jobs.add(new_job(lock_key="k", owner=owner))

    one, two = held(store, adds("ann"), adds("bob"))
    assert one is not None
    assert two is None
    holder = store.jobs.holder("k")
    assert holder is not None
    assert holder.job.owner == "ann"
    assert_sound(store)


def test_two_supervisors_hand_a_job_out_once(store: Store) -> None:
    job = pulled(store)
    one = candidate(store, job)
    told = held(store, lambda s: reserve(s, one, "e" * 64), lambda s: reserve(s, one, "f" * 64))
    assert told == (True, False)
    assert row(store, job.id)["worker_token_hash"] == "e" * 64


def test_a_job_that_is_cancelled_is_not_handed_out(store: Store) -> None:
    job = pulled(store, lock_key="k")
    one = candidate(store, job)
    assert held(store, cancels(job), lambda s: reserve(s, one)) == (True, False)
    assert status_of(store, job.id)[0] == "cancelled"
    assert row(store, job.id)["worker_token_hash"] is None


def test_a_job_that_is_being_handed_out_can_be_cancelled(store: Store) -> None:
    job = pulled(store, lock_key="k")
    one = candidate(store, job)
    assert held(store, lambda s: reserve(s, one), cancels(job)) == (True, True)
    assert row(store, job.id)["worker_token_hash"] is None
    assert try_claim(store, job, claim_mode="trusted") is None
    assert_sound(store)
