"""A pulled job from its claim on: guarded by its reservation, back in the queue, or poison."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flask_jobrunner.model.records import Outcome
from flask_jobrunner.model.statuses import POISON_DEATHS
from flask_jobrunner.protocol.identity import this_process
from flask_jobrunner.recovery.verdict import verdict
from flask_jobrunner.repositories.dispatch import Wanted
from flask_jobrunner.repositories.rows import MICROSECONDS
from tests.helpers.pulled import (
    OTHER,
    OTHER_HASH,
    PULLED,
    candidate,
    claimed,
    give_back,
    pulled,
    reserve,
    waiting,
)
from tests.helpers.stores import (
    ELSEWHERE,
    Store,
    assert_sound,
    change,
    history,
    new_job,
    owned,
    queue,
    row,
    try_claim,
)


def test_the_claim_of_a_pulled_job_is_guarded_by_its_reservation(store: Store) -> None:
    job = pulled(store, queue_budget=60.0)
    assert claimed(store, job) is None
    assert reserve(store, candidate(store, job))

    assert claimed(store, job, credential=OTHER) is None
    assert try_claim(store, job) is None, "a pushed child cannot claim a pulled job"
    won = claimed(store, job)
    assert won is not None
    found = row(store, job.id)
    assert (found["dispatch_until"], found["dispatch_by"]) == (None, "s1")
    assert found["queue_deadline"] is not None
    assert give_back(store, job) is None


def test_a_pulled_child_cannot_claim_a_pushed_job(store: Store) -> None:
    job = queue(store)

    assert claimed(store, job) is None


def test_what_never_began_waits_again_with_all_that_it_had(store: Store) -> None:
    later = 5 * MICROSECONDS
    job = pulled(store, lock_key="k", queue_budget=60.0, priority=4, not_before=later)
    before = row(store, job.id)
    assert reserve(store, candidate(store, job))
    assert claimed(store, job, worker=ELSEWHERE)
    seen = owned(store, job)

    assert store.endings.end_dead(seen, verdict(seen, {"signal": 11, "booted": True}))
    found = row(store, job.id)
    kept = ("active_lock_key", "queue_deadline", "priority", "not_before", "created_at")
    assert {name: found[name] for name in kept} == {name: before[name] for name in kept}
    assert (found["status"], found["attempt"], found["unstarted_deaths"]) == ("queued", 2, 1)
    assert (found["worker_token"], found["dispatch_by"]) == (None, None)
    assert history(store, job.id)[-1] == ("end", "running", "queued")
    assert waiting(store) == [job.id]
    assert_sound(store)


def test_three_deaths_before_the_start_are_poison(store: Store) -> None:
    job = pulled(store)
    for _ in range(POISON_DEATHS):
        again = owned(store, job).job
        assert reserve(store, candidate(store, again))
        assert claimed(store, again, worker=ELSEWHERE)
        seen = owned(store, job)
        assert store.endings.end_dead(seen, verdict(seen, {"exit_code": 0, "booted": True}))
    ended = owned(store, job).job

    assert (ended.status, ended.error_reason_code) == ("failed", "poison")
    assert ended.attempt == POISON_DEATHS
    assert_sound(store)


@pytest.mark.parametrize(
    "evidence",
    [
        {"signal": 15},
        {"signal": 9, "killed": "shutdown"},
        {"exit_code": 5},
        {"exit_code": 69},
    ],
    ids=str,
)
def test_what_was_ended_or_left_of_itself_is_no_death(
    store: Store, evidence: dict[str, Any]
) -> None:
    job = pulled(store)
    assert reserve(store, candidate(store, job))
    assert claimed(store, job, worker=ELSEWHERE)
    seen = owned(store, job)

    assert store.endings.end_dead(seen, verdict(seen, evidence))
    assert row(store, job.id)["unstarted_deaths"] == 0


def test_a_pulled_job_is_requeued_under_the_same_row(store: Store) -> None:
    job = pulled(store, priority=3)
    assert reserve(store, candidate(store, job))
    won = claimed(store, job)
    assert won
    change(store, job.id, unstarted_deaths=2)
    assert store.endings.finish(won.fence, Outcome(status="failed", reason="handler_raised"))
    now = row(store, job.id)["finished_at"]

    assert store.jobs.requeue(
        owned(store, job).job,
        claim_mode="trusted",
        credential_hash=None,
        claim_window=None,
        queue_budget=60.0,
        revision="r2",
        config_digest="d2",
        actor="ann",
        delay=90.0,
    )
    found = row(store, job.id)
    assert (found["status"], found["attempt"], found["priority"]) == ("queued", 2, 3)
    assert (found["claim_deadline"], found["worker_token_hash"]) == (None, None)
    assert (found["unstarted_deaths"], found["revision"]) == (0, "r2")
    assert timedelta(microseconds=found["not_before"] - now) >= timedelta(seconds=90)
    assert found["queue_deadline"] == found["not_before"] + 60 * MICROSECONDS
    assert_sound(store)


def test_a_job_of_an_old_revision_is_admitted_under_a_new_one(store: Store) -> None:
    job = pulled(store, revision="r1", lock_key="k")

    def admit(revision: str | None) -> bool | None:
        return store.jobs.requeue(
            owned(store, job).job,
            claim_mode="trusted",
            credential_hash=None,
            claim_window=None,
            queue_budget=None,
            revision=revision,
            config_digest="d",
            actor="ann",
        )

    assert not admit("r1"), "it waits for this revision already"
    (one,) = store.dispatch.candidates(Wanted(revision="r1"))
    assert reserve(store, one)
    assert not admit("r2"), "it is being handed out"
    change(store, job.id, dispatch_until=1)
    assert admit("r2")
    assert waiting(store, revision="r2") == [job.id]
    assert claimed(store, job, revision="r1") is None
    assert history(store, job.id)[-1] == ("requeue", "queued", "queued")
    assert_sound(store)


def test_a_pushed_job_that_waits_is_not_admitted_anew(store: Store) -> None:
    job = queue(store, revision="r1")

    assert not store.jobs.requeue(
        job,
        credential_hash=OTHER_HASH,
        claim_window=30.0,
        queue_budget=None,
        revision="r2",
        config_digest="d",
        actor=None,
    )


def test_the_pulled_jobs_of_a_host_are_counted(store: Store) -> None:
    here = this_process()
    for worker in (here, ELSEWHERE):
        job = pulled(store)
        assert reserve(store, candidate(store, job))
        assert claimed(store, job, worker=worker, parent=here)
    assert try_claim(store, queue(store), worker=here)

    (found,) = store.dispatch.running_on(here.host or "")
    assert (found.worker, found.parent) == (here, here)


def test_two_jobs_of_one_lock_key_do_not_wait_together(store: Store) -> None:
    pulled(store, lock_key="k")

    assert store.jobs.add(new_job(**PULLED, lock_key="k")) is None
    assert store.jobs.add(new_job(lock_key="k")) is None
