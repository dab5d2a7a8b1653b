"""How an attempt ends: by its owner, once, or by the verdict of others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from flask_jobrunner.model.records import (
    BeatAnswer,
    Claim,
    Outcome,
    Progress,
    Verdict,
)
from tests.helpers.stores import (
    Store,
    assert_sound,
    change,
    claim,
    everything,
    lines,
    messages,
    owned,
    queue,
    row,
    start,
)

RUNNING = BeatAnswer(status="running", stop_reason=None)
INTERRUPTED = Verdict(status="interrupted", reason="process_died", message="It died.")


# -- the end ----------------------------------------------------------------------------------

ENDS = [
    (False, Outcome(status="succeeded", result_json="[1]"), "succeeded", None, "[1]"),
    (False, Outcome(status="failed", reason="handler_raised"), "failed", "handler_raised", None),
    (False, Outcome(status="interrupted", reason="shutdown"), "interrupted", "shutdown", None),
    (False, Outcome(status="cancelled"), "failed", "cancelled_unasked", None),
    (True, Outcome(status="succeeded", result_json="[1]"), "cancelled", None, "[1]"),
    (True, Outcome(status="cancelled"), "cancelled", None, None),
    (True, Outcome(status="failed", reason="handler_raised"), "failed", "handler_raised", None),
    (True, Outcome(status="failed", reason="cancelled_unasked"), "cancelled", None, None),
    (True, Outcome(status="interrupted", reason="shutdown"), "cancelled", None, None),
]


@pytest.mark.parametrize(("asked", "outcome", "status", "reason", "result"), ENDS)
def test_what_an_owner_s_end_comes_to(
    store: Store, asked: bool, outcome: Outcome, status: str, reason: str | None, result: str | None
) -> None:
    won = start(store, queue(store, lock_key="k"))
    job_id = won.fence.job_id
    store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    if asked:
        store.jobs.request_cancel(job_id, 1, "ann")
    outcome = replace(outcome, error_class="E", error_message="why\nmore", traceback="tb")

    ended = store.endings.finish(
        won.fence, outcome, lines=lines("b"), last_seq=1, progress=Progress(done=3)
    )

    assert ended is not None
    assert ended.job.status == status
    assert ended.job.error_reason_code == reason
    assert ended.result_json == result
    told = status not in {"succeeded", "cancelled"}
    assert (ended.job.error_message is not None) == told
    assert ended.job.progress_done == 3
    after = row(store, job_id)
    assert after["active_lock_key"] is None
    assert after["finished_at"] is not None
    assert after["lease_until"] is not None
    assert after["worker_token"] == won.fence.token
    stored = messages(store, job_id)
    assert [text for _, text in stored[:2]] == ["a", "b"]
    assert len(stored) == 3
    assert stored[2][1].startswith(status.capitalize())
    (attempt,) = store.attempts.of(job_id)
    assert (attempt.end_status, attempt.end_reason) == (status, reason)
    assert attempt.traceback == "tb"
    assert attempt.ended_at is not None
    assert store.events.of(job_id)[-1].to_status == status
    assert_sound(store)


def test_the_same_end_again_is_the_same_end(store: Store) -> None:
    """As after a commit whose answer was lost."""
    won = start(store)
    end = Outcome(status="succeeded", result_json="1")
    first = store.endings.finish(won.fence, end, lines=lines("bye"), last_seq=0)
    dump = everything(store)
    again = store.endings.finish(won.fence, end, lines=lines("bye"), last_seq=0)
    assert first is not None
    assert again is not None
    assert replace(again, now=0) == replace(first, now=0)
    assert everything(store) == dump


@pytest.mark.parametrize("status", ["interrupted", "failed", "lost", "cancelled"])
def test_an_owner_that_was_judged_dead_is_told_so(store: Store, status: Any) -> None:
    """It must not take the verdict for its own end: what it returned was not stored."""
    won = start(store)
    if status == "cancelled":
        store.jobs.request_cancel(won.fence.job_id, 1, None)
    seen = owned(store, won.fence.job_id)
    assert store.endings.end_dead(seen, replace(INTERRUPTED, status=status))
    dump = everything(store)
    end = Outcome(status="succeeded", result_json="1")
    assert store.endings.finish(won.fence, end, lines=lines("bye"), last_seq=0) is None
    assert everything(store) == dump


def test_an_end_counts_its_lines_from_where_they_are(store: Store) -> None:
    won = start(store)
    store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    dump = everything(store)
    end = Outcome(status="succeeded")
    assert store.endings.finish(won.fence, end, lines=lines("b"), last_seq=0) is None
    assert everything(store) == dump
    assert store.endings.finish(won.fence, end, lines=lines("b"), last_seq=1) is not None


def test_a_cancel_and_an_end_at_once_agree(store: Store) -> None:
    """Whoever comes first: the row, the history and both answers tell the same."""
    seen = set()
    for _ in range(15):
        won = start(store)
        job_id, ready = won.fence.job_id, threading.Barrier(2)

        def cancels(job_id: int = job_id, ready: threading.Barrier = ready) -> bool:
            ready.wait()
            return store.jobs.request_cancel(job_id, 1, "ann")

        def ends(won: Claim = won, ready: threading.Barrier = ready) -> str:
            ready.wait()
            ended = store.endings.finish(won.fence, Outcome(status="succeeded", result_json="1"))
            assert ended is not None
            return ended.job.status

        with ThreadPoolExecutor(2) as threads:
            cancelled, ended = threads.submit(cancels), threads.submit(ends)
        status = "cancelled" if cancelled.result() else "succeeded"
        assert ended.result() == row(store, job_id)["status"] == status
        assert row(store, job_id)["result_json"] == "1"
        seen.add(status)
    assert_sound(store)
    assert seen


# -- the verdict of others --------------------------------------------------------------------


def test_a_verdict_ends_attempt_and_log_with_it(store: Store) -> None:
    won = start(store, queue(store, lock_key="k"))
    job_id = won.fence.job_id
    store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    verdict = replace(INTERRUPTED, evidence={"signal": 9, "text": "\ud800\0"})
    report = {"signal": 9, "exit_code": None, "evidence_json": '{"signal":9}'}
    assert store.endings.end_dead(
        owned(store, job_id), verdict, lines=lines("last words"), report=report, actor="sweeper"
    )
    assert [text for _, text in messages(store, job_id)] == [
        "a",
        "last words",
        "Interrupted (process_died): It died.",
    ]
    job = owned(store, job_id).job
    assert (job.status, job.error_reason_code) == ("interrupted", "process_died")
    assert job.error_message == "It died."
    (attempt,) = store.attempts.of(job_id)
    assert (attempt.signal, attempt.evidence) == (9, {"signal": 9})
    event = store.events.of(job_id)[-1]
    assert (event.actor, event.reason) == ("sweeper", "process_died")
    assert event.evidence == {"signal": 9, "text": "\ud800\0"}
    assert store.attempts.is_reported(job_id, 1)


SAVES: dict[str, Callable[[Store, Claim], object]] = {
    "a renewal": lambda store, won: store.ownership.beat(won.fence),
    "a line": lambda store, won: store.ownership.beat(won.fence, lines=lines("a"), last_seq=0),
    "the start marker": lambda store, won: store.ownership.mark_started(won.fence, None),
    "a stop reason": lambda store, won: store.ownership.set_stop_reason(won.fence, "run_timeout"),
    "a cancel": lambda store, won: store.jobs.request_cancel(won.fence.job_id, 1, None),
    "its end": lambda store, won: store.endings.finish(won.fence, Outcome(status="succeeded")),
}


@pytest.mark.parametrize("late", SAVES.values(), ids=SAVES.keys())
@pytest.mark.parametrize("status", ["interrupted", "failed", "lost"])
def test_what_its_owner_does_after_it_was_seen_saves_a_job(
    store: Store, late: Callable[[Store, Claim], object], status: Any
) -> None:
    won = claim(store)
    seen = owned(store, won.fence.job_id)
    assert late(store, won)
    dump = everything(store)
    assert not store.endings.end_dead(seen, replace(INTERRUPTED, status=status))
    assert everything(store) == dump


def test_two_verdicts_at_once_and_one_counts(store: Store) -> None:
    won = start(store)
    seen = owned(store, won.fence.job_id)
    with ThreadPoolExecutor(8) as threads:
        judged = list(threads.map(lambda _: store.endings.end_dead(seen, INTERRUPTED), range(8)))
    assert judged.count(True) == 1
    assert len([one for one in store.events.of(won.fence.job_id) if one.action == "end"]) == 1
    assert_sound(store)


def test_nothing_ran_so_a_pull_job_waits_again(store: Store) -> None:
    won = claim(store, queue(store, lock_key="k"))
    change(store, won.fence.job_id, claim_mode="trusted")
    again = Verdict(status="queued", reason="not_started", message="Nothing ran.")
    assert store.endings.end_dead(owned(store, won.fence.job_id), again)
    after = row(store, won.fence.job_id)
    assert (after["status"], after["attempt"], after["finished_at"]) == ("queued", 2, None)
    assert after["active_lock_key"] is not None
    assert after["worker_token"] is after["worker_pid"] is after["lease_until"] is None
    (attempt,) = store.attempts.of(won.fence.job_id)
    assert (attempt.end_status, attempt.end_reason) == ("queued", "not_started")
    assert_sound(store)
