"""Every move of the table in the design and no other, each whole or not at all.

From every status every write is tried. A refused one leaves no trace in any table; a move is one
step of `row_version`, one event, and the lock and the clocks that belong to the new status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.records import Fence, Outcome, Verdict
from flask_jobrunner.model.statuses import ACTIVE, MOVES, OWNED, TERMINAL, JobStatus, may_move
from flask_jobrunner.repositories.new_row import hash_lock_key
from tests.helpers.stores import (
    ELSEWHERE,
    Store,
    assert_sound,
    change,
    empty_tables,
    everything,
    history,
    lines,
    new_job,
    owned,
    queue,
    row,
    start,
    try_claim,
)

LOCK = "the lock"
DEADLINE_OF_NOBODY = {"claim_deadline", "queue_deadline", "worker_token_hash"}


@dataclass
class Case:
    """A job in some status, with the fence that its last owner had."""

    store: Store
    job_id: int
    fence: Fence

    @property
    def ended_by_its_owner(self) -> bool:
        return self.jobs_row()["status"] in TERMINAL - {JobStatus.LOST}

    def jobs_row(self) -> dict[str, Any]:
        return row(self.store, self.job_id)


def in_status(store: Store, status: str) -> Case:
    """A job that came to `status` by the moves that lead there."""
    job = queue(store, lock_key=LOCK, queue_budget=600.0)
    nobody = Fence(job_id=job.id, attempt=1, token="nobody")
    if status == "queued":
        return Case(store, job.id, nobody)
    won = start(store, job)
    case = Case(store, job.id, won.fence)
    if status in {"cancel_requested", "cancelled"}:
        assert store.jobs.request_cancel(job.id, 1, "ann")
    if status == "lost":
        assert store.endings.end_dead(owned(store, job), verdict("lost"))
    elif status in TERMINAL:
        end = Outcome(status="succeeded" if status == "cancelled" else status)  # type: ignore[arg-type]
        assert store.endings.finish(won.fence, end, last_seq=0)
    assert row(store, job.id)["status"] == status
    return case


def verdict(status: str) -> Verdict:
    return Verdict(status=status, reason="process_died", message="It died.")  # type: ignore[arg-type]


Write = Callable[[Case], Any]


def _finish(status: str) -> Write:
    def write(case: Case) -> Any:
        seq = case.jobs_row()["log_seq"]
        outcome = Outcome(status=status, reason=None)  # type: ignore[arg-type]
        try:
            return case.store.endings.finish(case.fence, outcome, lines=lines("bye"), last_seq=seq)
        except ValueError:
            assert (status in ACTIVE) or status == "lost"
            return None

    return write


def _dead(status: str) -> Write:
    def write(case: Case) -> Any:
        seen = owned(case.store, case.job_id)
        return case.store.endings.end_dead(seen, verdict(status), lines=lines("last words"))

    return write


def _requeue(case: Case) -> Any:
    return case.store.jobs.requeue(
        owned(case.store, case.job_id).job,
        credential_hash="f" * 64,
        claim_window=30.0,
        queue_budget=None,
        revision="r2",
        config_digest="d2",
        actor="bob",
    )


# Each write, with the status it makes of each status that it may start from.
WRITES: dict[str, tuple[Write, dict[str, str]]] = {
    "claim": (
        lambda case: try_claim(case.store, owned(case.store, case.job_id).job),
        {"queued": "running"},
    ),
    "cancel a queued one": (
        lambda case: case.store.jobs.cancel_queued(case.job_id, 1, "ann"),
        {"queued": "cancelled"},
    ),
    "fail a queued one": (
        lambda case: case.store.jobs.fail_queued(case.job_id, 1, "launch_failed", message="no"),
        {"queued": "failed"},
    ),
    "ask to cancel": (
        lambda case: case.store.jobs.request_cancel(case.job_id, 1, "ann"),
        {"running": "cancel_requested"},
    ),
    "requeue": (_requeue, dict.fromkeys(["interrupted", "failed", "cancelled", "lost"], "queued")),
    **{
        f"finish as {status}": (_finish(status), expected)
        for status, expected in {
            "succeeded": {"running": "succeeded", "cancel_requested": "cancelled"},
            "failed": {"running": "failed", "cancel_requested": "failed"},
            "interrupted": {"running": "interrupted", "cancel_requested": "cancelled"},
            "cancelled": {"running": "failed", "cancel_requested": "cancelled"},
            **{one: {} for one in ("queued", "running", "cancel_requested", "lost")},
        }.items()
    },
    **{
        f"found dead: {status}": (
            _dead(str(status)),
            {
                str(before): str(status)
                for before in OWNED
                if may_move(before, status) and status not in {"succeeded", "cancel_requested"}
            },
        )
        for status in JobStatus
    },
}


@pytest.mark.parametrize("status", [str(status) for status in JobStatus])
def test_every_write_from_every_status(store: Store, status: str) -> None:
    for name, (write, moves) in WRITES.items():
        case = in_status(store, status)
        before, dump = case.jobs_row(), everything(store)

        answer = write(case)

        after, dump_after = case.jobs_row(), everything(store)
        if status not in moves:
            # An owner that repeats its end is told what it had come to.
            repeated = name.startswith("finish") and case.ended_by_its_owner
            assert (answer.job.status == status) if repeated and answer else not answer, name
            assert dump_after == dump, (name, status)
        else:
            assert answer, (name, status)
            assert_moved(store, before, after, moves[status])
        assert_sound(store, dump_after)
        empty_tables(store)


def assert_moved(
    store: Store, before: dict[str, Any], after: dict[str, Any], expected: str
) -> None:
    from_status, to_status = before["status"], after["status"]
    assert to_status == expected
    assert (from_status, to_status) in MOVES
    assert after["row_version"] == before["row_version"] + 1
    assert after["updated_at"] >= before["updated_at"]
    assert history(store, before["id"])[-1][1:] == (from_status, to_status)

    keeps = to_status in ACTIVE or to_status == "lost"
    assert after["active_lock_key"] == (hash_lock_key(LOCK) if keeps else None)
    assert after["lock_key"] == LOCK
    again = to_status == "queued"
    assert after["attempt"] == before["attempt"] + again
    if to_status in TERMINAL:
        assert all(after[name] is None for name in DEADLINE_OF_NOBODY)
    if again:
        assert_fresh(after)


FRESH = [
    *("worker_token", "worker_pid", "worker_host", "worker_ticks", "parent_pid", "lease_until"),
    *("run_deadline", "started_at", "handler_started_at", "heartbeat_at", "finished_at"),
    *("cancel_requested_at", "stop_reason", "result_json", "current_step_key", "progress_done"),
    *("error_class", "error_reason_code", "error_message"),
]


def assert_fresh(after: dict[str, Any]) -> None:
    assert {name: after[name] for name in FRESH} == dict.fromkeys(FRESH)
    assert (after["warning_count"], after["error_count"]) == (0, 0)


def test_the_table_is_what_the_writes_do() -> None:
    """`MOVES` holds what some write makes, and what a later one is there for."""
    made = {(before, after) for _, moves in WRITES.values() for before, after in moves.items()}
    not_yet = {("lost", "cancelled")}
    assert {(str(a), str(b)) for a, b in MOVES if a is not None} == made | not_yet
    assert [b for a, b in MOVES if a is None] == ["queued"]
    assert {a for a, _ in MOVES if a is not None} | {"succeeded"} == set(JobStatus)


def test_only_a_job_of_this_attempt_moves(store: Store) -> None:
    job = queue(store)
    dump = everything(store)
    assert not store.jobs.cancel_queued(job.id, 2, None)
    assert not store.jobs.fail_queued(job.id, 0, "launch_failed", message="no")
    assert not store.jobs.cancel_queued(job.id + 1, 1, None)
    assert everything(store) == dump
    start(store, job)
    dump = everything(store)
    assert not store.jobs.request_cancel(job.id, 2, None)
    assert everything(store) == dump


def test_a_move_and_its_event_come_together_or_not_at_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, running = queue(store), start(store)
    dump = everything(store)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the event cannot be written")

    for module in ("jobs", "ownership", "endings"):
        monkeypatch.setattr(f"flask_jobrunner.repositories.{module}.add_event", broken)
    writes: list[Callable[[], object]] = [
        lambda: queue(store),
        lambda: store.jobs.cancel_queued(job.id, 1, None),
        lambda: store.jobs.fail_queued(job.id, 1, "launch_failed", message="no"),
        lambda: try_claim(store, job),
        lambda: store.jobs.request_cancel(running.fence.job_id, 1, None),
        lambda: store.ownership.set_stop_reason(running.fence, "shutdown"),
        lambda: store.endings.finish(running.fence, Outcome(status="succeeded"), last_seq=0),
        lambda: store.endings.end_dead(owned(store, running.fence.job_id), verdict("interrupted")),
    ]
    for write in writes:
        with pytest.raises(RuntimeError):
            write()
    assert everything(store) == dump


def test_what_happens_while_a_job_runs_is_told_in_order(store: Store) -> None:
    job = queue(store, actor="ann")
    won = start(store, job)
    store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    store.jobs.request_cancel(job.id, 1, "bob")
    store.endings.finish(won.fence, Outcome(status="succeeded", result_json="1"), last_seq=1)
    assert history(store, job.id) == [
        ("start", None, "queued"),
        ("claim", "queued", "running"),
        ("cancel", "running", "cancel_requested"),
        ("finish", "cancel_requested", "cancelled"),
    ]
    events = store.events.of(job.id)
    assert [event.actor for event in events] == ["ann", None, "bob", None]
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert row(store, job.id)["row_version"] == 5  # insert, claim, marker, cancel, finish
    assert row(store, job.id)["result_json"] == "1"


# -- requeue ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["interrupted", "failed", "cancelled", "lost"])
def test_requeue_is_the_next_attempt_with_clocks_of_its_own(store: Store, status: str) -> None:
    case = in_status(store, status)
    change(
        store,
        case.job_id,
        warning_count=3,
        error_class="E",
        current_step_key="s",
        progress_done=5,
        unstarted_deaths=2,
        revision="r1",
        result_json="1",
    )
    before = case.jobs_row()

    assert _requeue(case) is True

    after = case.jobs_row()
    assert_fresh(after)
    assert (after["status"], after["attempt"]) == ("queued", 2)
    assert after["worker_token_hash"] == "f" * 64
    assert (after["revision"], after["config_digest"]) == ("r2", "d2")
    assert after["unstarted_deaths"] == 0
    assert after["created_at"] == before["created_at"]
    assert after["queued_at"] > before["queued_at"]
    assert after["claim_deadline"] == after["queued_at"] + 30_000_000
    assert after["queue_deadline"] is None
    assert after["log_seq"] == before["log_seq"]
    assert history(store, case.job_id)[-1] == ("requeue", status, "queued")
    assert store.events.of(case.job_id)[-1].attempt == 2
    assert store.events.of(case.job_id)[-1].actor == "bob"
    # The first attempt's credential and token open nothing any more.
    assert try_claim(store, replace(owned(store, case.job_id).job, attempt=1)) is None
    assert store.ownership.beat(case.fence, lines=lines("x"), last_seq=after["log_seq"]) is None


@pytest.mark.parametrize("status", ["interrupted", "failed", "cancelled"])
def test_requeue_while_another_job_has_the_lock_changes_nothing(store: Store, status: str) -> None:
    case = in_status(store, status)
    queue(store, lock_key=LOCK)
    dump = everything(store)
    assert _requeue(case) is None
    assert everything(store) == dump


def test_a_lost_job_keeps_its_lock_from_others_and_takes_it_along(store: Store) -> None:
    case = in_status(store, "lost")
    holder = store.jobs.holder(LOCK)
    assert holder is not None
    assert holder.job.id == case.job_id
    assert store.jobs.add(new_job(lock_key=LOCK)) is None
    assert _requeue(case) is True
    assert case.jobs_row()["active_lock_key"] == hash_lock_key(LOCK)


def test_requeue_is_for_push_jobs_and_for_the_attempt_that_was_seen(store: Store) -> None:
    case = in_status(store, "failed")
    seen = owned(store, case.job_id).job
    change(store, case.job_id, claim_mode="trusted")
    assert _requeue(case) is False
    change(store, case.job_id, claim_mode="token", attempt=2)
    dump = everything(store)
    again = store.jobs.requeue(
        seen,
        credential_hash="f" * 64,
        claim_window=30.0,
        queue_budget=None,
        revision=None,
        config_digest="d",
        actor=None,
    )
    assert again is False
    assert everything(store) == dump


def test_the_queue_budget_of_a_requeue_is_a_deadline(store: Store) -> None:
    case = in_status(store, "failed")
    store.jobs.requeue(
        owned(store, case.job_id).job,
        credential_hash="f" * 64,
        claim_window=5.5,
        queue_budget=90.0,
        revision=None,
        config_digest="d",
        actor=None,
    )
    after = case.jobs_row()
    assert after["queue_deadline"] - after["queued_at"] == 90_000_000
    assert after["claim_deadline"] - after["queued_at"] == 5_500_000


def test_nothing_is_left_over_in_other_jobs(store: Store) -> None:
    bystander = start(store)
    before = row(store, bystander.fence.job_id)
    case = in_status(store, "running")
    _finish("succeeded")(case)
    assert row(store, bystander.fence.job_id) == before
    assert ELSEWHERE.pid != before["worker_pid"]
    jobs = store.database.tables.jobs
    assert len(store.database.rows(sa.select(jobs.c.id))) == 2
