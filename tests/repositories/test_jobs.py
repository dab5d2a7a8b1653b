"""What callers do to rows: add, mint, end what waits for too long, find."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from flask_jobrunner.model.errors import LockBusy
from flask_jobrunner.model.records import Job
from flask_jobrunner.protocol.envelope import hash_credential
from flask_jobrunner.protocol.identity import uuid7
from flask_jobrunner.repositories import database
from tests.helpers.stores import (
    CREDENTIAL,
    Store,
    assert_sound,
    claim,
    everything,
    history,
    new_job,
    open_store,
    owned,
    queue,
    row,
    stopped_clock,
    try_claim,
)

MICROSECONDS = 1_000_000


def test_a_new_row_says_what_was_asked(store: Store) -> None:
    job = queue(
        store,
        job_type="reports.build",
        title="Bericht für Ännchen 😀",
        owner="ann",
        reference="import:42",
        actor="bob",
        lock_key="report 1",
        payload_json='{"a":[1,null,"\\u0000"]}',
        queue_budget=60.5,
        revision="r1",
        config_digest="digest",
        base_url="https://shop.test/app",
        claim_window=30.0,
    )
    assert (job.job_type, job.title) == ("reports.build", "Bericht für Ännchen 😀")
    assert (job.owner, job.reference, job.actor) == ("ann", "import:42", "bob")
    assert job.lock_key == "report 1"
    assert job.payload == {"a": [1, None, "\0"]}
    assert (job.status, job.is_active, job.is_terminal, job.is_stale) == (
        "queued",
        True,
        False,
        False,
    )
    assert (job.attempt, job.priority, job.warning_count, job.error_count) == (1, 0, 0, 0)
    assert job.created_at == job.queued_at == job.updated_at
    assert job.created_at.utcoffset() is not None
    for nothing in (job.started_at, job.finished_at, job.stop_reason, job.not_before):
        assert nothing is None

    seen = owned(store, job)
    assert seen.job == job
    assert (seen.claim_mode, seen.has_credential, seen.started) == ("token", True, False)
    assert (seen.revision, seen.config_digest) == ("r1", "digest")
    assert seen.base_url == "https://shop.test/app"
    assert seen.row_version == 1
    created = row(store, job.id)["created_at"]
    assert seen.claim_deadline == created + 30 * MICROSECONDS
    assert seen.queue_deadline == created + 60_500_000
    assert row(store, job.id)["launched_at"] == created
    assert history(store, job.id) == [("start", None, "queued")]
    assert store.events.of(job.id)[0].actor == "bob"


def test_found_by_id_uuid_and_lock(store: Store) -> None:
    job = queue(store, lock_key="k")
    other = queue(store)
    assert store.jobs.get(job.id) == store.jobs.get(job.uuid)
    holder = store.jobs.holder("k")
    assert holder is not None
    assert holder.job == store.jobs.get(job.id)
    for nothing in (0, -1, 2**62, "", "x", uuid7()):
        assert store.jobs.get(nothing) is None
    assert store.jobs.holder("K") is None
    assert set(store.jobs.get_many([job.uuid, other.uuid, uuid7()])) == {job.uuid, other.uuid}
    assert store.jobs.get_many([]) == {}


def test_more_than_fit_into_one_question(store: Store) -> None:
    job = queue(store)
    many = [uuid7() for _ in range(1200)]
    assert set(store.jobs.get_many([*many, job.uuid])) == {job.uuid}


# -- one active job for a lock key ------------------------------------------------------------


def test_fifty_at_once_and_one_row(store: Store) -> None:
    """On MariaDB some of them meet a deadlock, which has to come to the same answer."""
    stores = [open_store(store.url, keep=True) for _ in range(2)]
    ready = threading.Barrier(50)

    def race(number: int) -> Job | None:
        ready.wait()
        return stores[number % 2].jobs.add(new_job(lock_key="one", title=f"number {number}"))

    with ThreadPoolExecutor(50) as threads:
        made = [job for job in threads.map(race, range(50)) if job is not None]
    for one in stores:
        one.database.engine.dispose()

    assert len(made) == 1
    holder = store.jobs.holder("one")
    assert holder is not None
    assert holder.job == made[0]
    rows = everything(store)
    assert len(rows["jobrun_jobs"]) == 1
    assert len(rows["jobrun_events"]) == 1
    assert_sound(store)


def test_a_key_that_an_open_transaction_is_taking_is_busy_and_not_waited_for_without_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a host has started one with `session=` and has not committed yet."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 1.0)
    impatient = open_store(store.url)
    with store.database.engine.begin() as host:
        store.jobs.add_in(host, new_job(lock_key="k", credential_hash=None))
        with pytest.raises(LockBusy):
            impatient.jobs.add(new_job(lock_key="k"))
        host.rollback()
    assert impatient.jobs.add(new_job(lock_key="k")) is not None
    assert len(everything(store)["jobrun_jobs"]) == 1


def test_jobs_without_a_lock_key_never_meet(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: queue(store), range(16)))
    assert len({job.uuid for job in made}) == 16


def test_the_lock_is_free_with_the_end(store: Store) -> None:
    first = queue(store, lock_key="k")
    assert store.jobs.add(new_job(lock_key="k")) is None
    assert store.jobs.cancel_queued(first.id, 1, None)
    second = queue(store, lock_key="k")
    assert second.id > first.id
    assert owned(store, first).job.lock_key == "k"


def test_two_requeues_for_one_lock_and_one_wins(store: Store) -> None:
    jobs = []
    for _ in range(2):
        job = queue(store, lock_key="k")
        store.jobs.fail_queued(job.id, 1, "launch_failed", message="no")
        jobs.append(owned(store, job).job)
    ready = threading.Barrier(2)

    def race(job: Job) -> bool | None:
        ready.wait()
        return store.jobs.requeue(
            job,
            credential_hash="f" * 64,
            claim_window=30.0,
            queue_budget=None,
            revision=None,
            config_digest="",
            actor=None,
        )

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(race, jobs))
    assert sorted(answers, key=str) == [None, True]
    assert_sound(store)


# -- a row that joined the host's transaction -------------------------------------------------


def test_only_a_minted_row_can_be_claimed_and_it_is_minted_once(store: Store) -> None:
    job = queue(store, credential_hash=None, claim_window=300.0)
    assert row(store, job.id)["launched_at"] is None
    assert not owned(store, job).has_credential
    assert try_claim(store, job) is None

    with ThreadPoolExecutor(6) as threads:
        minted = list(
            threads.map(lambda n: store.jobs.mint(job.id, 1, f"{n}" * 64, 30.0), range(6))
        )
    assert minted.count(True) == 1
    after = row(store, job.id)
    assert after["worker_token_hash"] == str(minted.index(True)) * 64
    assert after["claim_deadline"] == after["launched_at"] + 30 * MICROSECONDS
    assert after["row_version"] == 2


@pytest.mark.parametrize("status", ["cancelled", "failed", "running"])
def test_what_has_moved_on_is_not_minted(store: Store, status: str) -> None:
    job = queue(store, credential_hash=None)
    if status == "cancelled":
        store.jobs.cancel_queued(job.id, 1, None)
    elif status == "failed":
        store.jobs.fail_queued(job.id, 1, "never_launched", message="no")
    else:
        store.jobs.mint(job.id, 1, hash_credential(CREDENTIAL), 30.0)
        claim(store, job)
    dump = everything(store)
    assert not store.jobs.mint(job.id, 1, "f" * 64, 30.0)
    assert everything(store) == dump


def test_a_pull_job_or_another_attempt_is_not_minted(store: Store) -> None:
    pull = queue(store, credential_hash=None, claim_mode="trusted")
    push = queue(store, credential_hash=None)
    dump = everything(store)
    assert not store.jobs.mint(pull.id, 1, "f" * 64, 30.0)
    assert not store.jobs.mint(push.id, 2, "f" * 64, 30.0)
    assert everything(store) == dump


# -- failing what waits -----------------------------------------------------------------------


@pytest.mark.parametrize("deadline", ["claim_deadline", "queue_deadline"])
@pytest.mark.parametrize(("late", "fails"), [(-1, False), (0, True), (1, True)])
def test_a_deadline_ends_a_job_from_its_very_instant(
    store: Store, deadline: str, late: int, fails: bool
) -> None:
    job = queue(store, queue_budget=20.0, lock_key="k")
    dump = everything(store)
    with stopped_clock(store, row(store, job.id)[deadline] + late):
        ended = store.jobs.fail_queued(
            job.id, 1, "queue_timeout", message="Too late.", deadline=deadline
        )
    assert ended == fails
    if not fails:
        assert everything(store) == dump
        return
    after = owned(store, job).job
    assert (after.status, after.error_reason_code) == ("failed", "queue_timeout")
    assert after.error_message == "Too late."
    assert store.jobs.holder("k") is None
    assert try_claim(store, job) is None


def test_a_deadline_that_is_not_set_never_passes(store: Store) -> None:
    job = queue(store)
    with stopped_clock(store, 2**60):
        assert not store.jobs.fail_queued(job.id, 1, "x", message="", deadline="queue_deadline")


def test_failing_by_credential_is_for_its_holder(store: Store) -> None:
    job = queue(store)
    dump = everything(store)
    assert not store.jobs.fail_queued(
        job.id, 1, "revision_mismatch", message="", credential_hash="f" * 64
    )
    assert everything(store) == dump
    assert store.jobs.fail_queued(
        job.id,
        1,
        "revision_mismatch",
        message="no",
        error_class="E",
        evidence={"wanted": "r1"},
        credential_hash=hash_credential(CREDENTIAL),
    )
    event = store.events.of(job.id)[-1]
    assert (event.action, event.reason, event.evidence) == (
        "fail",
        "revision_mismatch",
        {"wanted": "r1"},
    )
    assert owned(store, job).job.error_class == "E"


def test_the_hash_is_gone_from_every_ended_row(store: Store) -> None:
    ends: list[Callable[[int], bool]] = [
        lambda job_id: store.jobs.cancel_queued(job_id, 1, None),
        lambda job_id: store.jobs.fail_queued(job_id, 1, "launch_failed", message=""),
    ]
    for end in ends:
        job = queue(store)
        assert end(job.id)
        assert row(store, job.id)["worker_token_hash"] is None


# -- staleness --------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "stale"), [(0, False), (1, True)])
def test_a_lease_that_ran_out_is_shown_as_late(store: Store, late: int, stale: bool) -> None:
    won = claim(store)
    with stopped_clock(store, row(store, won.fence.job_id)["lease_until"] + late):
        assert owned(store, won.fence.job_id).job.is_stale == stale
        store.jobs.request_cancel(won.fence.job_id, 1, None)
        assert owned(store, won.fence.job_id).job.is_stale == stale
