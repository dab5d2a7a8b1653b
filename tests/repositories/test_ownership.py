"""What an owner writes while it has a job: fenced, gap-free, and harmless when sent again."""

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
    Fence,
    NewLine,
    Outcome,
    Progress,
    Verdict,
)
from flask_jobrunner.model.statuses import STOP_REASONS, StopReason
from tests.helpers.stores import (
    Store,
    assert_sound,
    change,
    claim,
    everything,
    lines,
    messages,
    owned,
    row,
)

RUNNING = BeatAnswer(status="running", stop_reason=None)
INTERRUPTED = Verdict(status="interrupted", reason="process_died", message="It died.")

Write = Callable[[Store, Fence], Any]
WRITES: dict[str, Write] = {
    "beat": lambda store, fence: store.ownership.beat(fence),
    "beat with lines": lambda store, fence: store.ownership.beat(
        fence, lines=lines("x"), last_seq=1, progress=Progress(done=1)
    ),
    "peek": lambda store, fence: store.ownership.peek(fence),
    "start": lambda store, fence: store.ownership.mark_started(fence, 1.0),
    "stop": lambda store, fence: store.ownership.set_stop_reason(fence, "shutdown"),
    "finish": lambda store, fence: store.endings.finish(
        fence, Outcome(status="succeeded", result_json="1"), lines=lines("x"), last_seq=1
    ),
}


def running_with_a_line(store: Store) -> Claim:
    won = claim(store)
    store.ownership.beat(won.fence, lines=lines("first"), last_seq=0)
    return won


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize(
    "change_of", [{"token": "other"}, {"token": ""}, {"attempt": 2}, {"job_id": 10**9}], ids=str
)
def test_a_stale_owner_writes_nothing(
    store: Store, write: Write, change_of: dict[str, Any]
) -> None:
    """All other clauses are equal: the one that differs refuses."""
    won = running_with_a_line(store)
    dump = everything(store)
    assert not write(store, replace(won.fence, **change_of))
    assert everything(store) == dump
    assert write(store, won.fence)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("status", ["interrupted", "failed", "cancelled", "succeeded", "lost"])
def test_an_owner_of_an_ended_job_writes_nothing(store: Store, write: Write, status: str) -> None:
    won = running_with_a_line(store)
    change(store, won.fence.job_id, status=status, finished_at=1)
    dump = everything(store)
    assert not write(store, won.fence)
    assert everything(store) == dump


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_after_a_takeover_the_first_owner_writes_nothing(store: Store, write: Write) -> None:
    """Token and attempt are what refuses: status and log number are the second owner's."""
    first = running_with_a_line(store)
    job_id = first.fence.job_id
    change(store, job_id, worker_token="second", attempt=2)
    dump = everything(store)
    assert not write(store, first.fence)
    assert everything(store) == dump
    assert write(store, Fence(job_id=job_id, attempt=2, token="second"))


# -- beats ------------------------------------------------------------------------------------


def test_a_beat_renews_and_leaves_the_version_alone(store: Store) -> None:
    won = claim(store)
    job_id = won.fence.job_id
    before = row(store, job_id)
    assert store.ownership.beat(won.fence) == RUNNING
    after = row(store, job_id)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"lease_until", "heartbeat_at"}
    assert after["lease_until"] - after["heartbeat_at"] == 15_000_000


def test_a_beat_carries_lines_progress_and_counters(store: Store) -> None:
    won = claim(store)
    sent = [
        NewLine("grün", "warning", "", "s1", '{"a":1}', 1_000_000),
        NewLine("", "error", "stderr"),
        NewLine("x" * 100_000, "debug", "stdout"),
    ]
    progress = Progress(
        step_key="s1", step_label="Step", step_index=1, step_total=2, done=2**40, total=2**50
    )
    store.ownership.beat(won.fence, lines=sent, last_seq=0, progress=progress)

    job = owned(store, won.fence.job_id).job
    assert (job.warning_count, job.error_count) == (1, 1)
    assert (job.current_step_key, job.current_step_label) == ("s1", "Step")
    assert (job.step_index, job.step_total) == (1, 2)
    assert (job.progress_done, job.progress_total) == (2**40, 2**50)
    assert row(store, job.id)["log_bytes"] == len("grün".encode()) + 100_000
    stored = store.logs.after(job.id, 0, 10)
    assert [(one.seq, one.message, one.level, one.stream) for one in stored] == [
        (1, "grün", "warning", ""),
        (2, "", "error", "stderr"),
        (3, "x" * 100_000, "debug", "stdout"),
    ]
    assert (stored[0].step_key, stored[0].context) == ("s1", {"a": 1})
    assert stored[0].created_at.timestamp() == 1.0
    assert stored[1].created_at >= job.created_at
    assert {one.attempt for one in stored} == {1}


def test_without_progress_the_last_one_stays(store: Store) -> None:
    won = claim(store)
    store.ownership.beat(won.fence, progress=Progress(done=1))
    store.ownership.beat(won.fence)
    assert owned(store, won.fence.job_id).job.progress_done == 1


def test_the_same_beat_again_adds_nothing(store: Store) -> None:
    won = claim(store)
    for _ in range(3):
        answer = store.ownership.beat(won.fence, lines=lines("a", "b"), last_seq=0)
        assert answer == RUNNING
    assert messages(store, won.fence.job_id) == [(1, "a"), (2, "b")]
    assert store.ownership.beat(won.fence, lines=lines("c"), last_seq=2) == RUNNING
    assert messages(store, won.fence.job_id)[-1] == (3, "c")


@pytest.mark.parametrize("last_seq", [0, 2, 7])
def test_lines_with_a_gap_or_over_others_are_refused(store: Store, last_seq: int) -> None:
    won = claim(store)
    store.ownership.beat(won.fence, lines=lines("a", "b", "c"), last_seq=0)
    dump = everything(store)
    assert store.ownership.beat(won.fence, lines=lines("x", "y"), last_seq=last_seq) is None
    assert everything(store) == dump


def test_two_writers_a_live_and_a_stale_one_leave_no_gap(store: Store) -> None:
    won = claim(store)
    stale = replace(won.fence, token="stale")
    done = threading.Event()

    def live() -> int:
        last = 0
        for number in range(40):
            sent = lines(*(f"{number}.{place}" for place in range(number % 4 + 1)))
            assert store.ownership.beat(won.fence, lines=sent, last_seq=last) == RUNNING
            last += len(sent)
        done.set()
        return last

    def intruder() -> int:
        refused = 0
        while not done.is_set():
            seq = row(store, won.fence.job_id)["log_seq"]
            assert store.ownership.beat(stale, lines=lines("stale"), last_seq=seq) is None
            refused += 1
        return refused

    with ThreadPoolExecutor(2) as threads:
        last, refused = threads.submit(live), threads.submit(intruder)
    assert refused.result() > 0
    assert [seq for seq, _ in messages(store, won.fence.job_id)] == list(
        range(1, last.result() + 1)
    )
    assert all(text != "stale" for _, text in messages(store, won.fence.job_id))
    assert_sound(store)


def test_a_beat_that_fails_in_the_middle_leaves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    won = claim(store)
    dump = everything(store)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("lines cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr("flask_jobrunner.repositories.ownership.add_lines", broken)
        with pytest.raises(RuntimeError):
            store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    assert everything(store) == dump


def test_a_beat_tells_what_was_asked(store: Store) -> None:
    won = claim(store)
    store.ownership.set_stop_reason(won.fence, "run_timeout")
    told = BeatAnswer(status="running", stop_reason="run_timeout")
    assert store.ownership.beat(won.fence) == store.ownership.peek(won.fence) == told
    store.jobs.request_cancel(won.fence.job_id, 1, None)
    told = BeatAnswer(status="cancel_requested", stop_reason="cancel")
    assert store.ownership.beat(won.fence, lines=lines("a"), last_seq=0) == told
    assert store.ownership.beat(won.fence, lines=lines("a"), last_seq=0) == told
    assert store.ownership.peek(won.fence) == told


# -- stop reasons -----------------------------------------------------------------------------


def test_a_stop_reason_only_rises(store: Store) -> None:
    for first in STOP_REASONS:
        for second in STOP_REASONS:
            won = claim(store)
            assert store.ownership.set_stop_reason(won.fence, first)
            rises = STOP_REASONS.index(second) > STOP_REASONS.index(first)
            before = row(store, won.fence.job_id)
            assert store.ownership.set_stop_reason(won.fence, second) == rises
            after = row(store, won.fence.job_id)
            assert after["stop_reason"] == (second if rises else first)
            assert after["row_version"] == before["row_version"] + rises


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_a_cancel_does_not_lower_it(store: Store, reason: StopReason) -> None:
    won = claim(store)
    store.ownership.set_stop_reason(won.fence, reason)
    assert store.jobs.request_cancel(won.fence.job_id, 1, None)
    kept = "force" if reason == "force" else "cancel"
    assert row(store, won.fence.job_id)["stop_reason"] == kept


def test_asking_to_stop_is_in_the_history(store: Store) -> None:
    won = claim(store)
    store.ownership.set_stop_reason(won.fence, "run_timeout")
    (event,) = [one for one in store.events.of(won.fence.job_id) if one.action == "stop"]
    assert (event.reason, event.attempt, event.to_status) == ("run_timeout", 1, None)
