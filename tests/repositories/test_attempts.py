"""The parent's report beside an attempt, and the last lines that it brings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from flask_jobrunner.model.records import Claim, NewLine, Outcome
from flask_jobrunner.protocol.envelope import hash_credential
from tests.helpers.stores import (
    CREDENTIAL,
    Store,
    assert_sound,
    claim,
    everything,
    lines,
    messages,
    owned,
    row,
    start,
)

REPORT: dict[str, Any] = {
    "exit_code": None,
    "signal": 9,
    "peak_rss": 2**40,
    "cpu_us": 1_500_000,
    "evidence_json": '{"signal":9}',
}


def ended(store: Store) -> Claim:
    won = start(store)
    store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    assert store.endings.finish(won.fence, Outcome(status="succeeded"), last_seq=1)
    return won


def next_attempt(store: Store, won: Claim) -> Claim:
    seen = owned(store, won.fence.job_id)
    assert store.jobs.requeue(
        seen.job,
        credential_hash=hash_credential(CREDENTIAL),
        claim_window=30.0,
        queue_budget=None,
        revision=None,
        config_digest="",
        actor=None,
    )
    return claim(store, owned(store, won.fence.job_id).job)


def add(store: Store, won: Claim, *texts: str, **report: Any) -> bool:
    fence = won.fence
    last = [NewLine(text, "info", "stdout", None, None, 1_000_000) for text in texts]
    return store.attempts.add_report(
        fence.job_id, fence.attempt, fence.token, REPORT | report, last
    )


def test_a_report_is_added_to_an_ended_attempt_with_its_last_lines(store: Store) -> None:
    won = ended(store)
    before = row(store, won.fence.job_id)
    assert not store.attempts.is_reported(won.fence.job_id, 1)

    assert add(store, won, "last words", "and more")

    (attempt,) = store.attempts.of(won.fence.job_id)
    assert (attempt.signal, attempt.exit_code, attempt.peak_rss) == (9, None, 2**40)
    assert (attempt.cpu_us, attempt.evidence) == (1_500_000, {"signal": 9})
    assert attempt.end_status == "succeeded"
    assert store.attempts.is_reported(won.fence.job_id, 1)
    assert messages(store, won.fence.job_id) == [
        (1, "a"),
        (2, "Succeeded"),
        (3, "last words"),
        (4, "and more"),
    ]
    after = row(store, won.fence.job_id)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"row_version", "log_seq", "log_bytes"}
    assert_sound(store)


def test_a_second_report_changes_nothing(store: Store) -> None:
    won = ended(store)
    assert add(store, won, "last words")
    dump = everything(store)
    assert add(store, won, "last words", "again", signal=11)
    assert add(store, won, signal=11)
    assert everything(store) == dump


def test_many_reports_at_once_are_one(store: Store) -> None:
    won = ended(store)
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda _: add(store, won, "last words"), range(8)))
    assert len(messages(store, won.fence.job_id)) == 3
    assert_sound(store)


@pytest.mark.parametrize("wrong", [{"attempt": 2}, {"token": "other"}, {"job_id": 10**9}], ids=str)
def test_a_report_of_something_else_leaves_no_line(store: Store, wrong: dict[str, Any]) -> None:
    won = ended(store)
    dump = everything(store)
    values: dict[str, Any] = {
        "job_id": won.fence.job_id,
        "attempt": 1,
        "token": won.fence.token,
        "report": REPORT,
    }
    store.attempts.add_report(**values | wrong, lines=lines("last words"))
    assert everything(store) == dump


def test_last_lines_never_come_between_an_owner_s(store: Store) -> None:
    """A report that is late by an attempt: the owner of the next one must not be fenced by it."""
    first = ended_badly(store)
    second = next_attempt(store, first)
    last_seq = row(store, first.fence.job_id)["log_seq"]
    dump = everything(store)

    assert not add(store, first, "last words")
    assert everything(store) == dump

    assert add(store, first)
    assert store.attempts.is_reported(first.fence.job_id, 1)
    assert not store.attempts.is_reported(first.fence.job_id, 2)
    assert store.ownership.beat(second.fence, lines=lines("b"), last_seq=last_seq)
    assert_sound(store)


def ended_badly(store: Store) -> Claim:
    won = start(store)
    assert store.endings.finish(won.fence, Outcome(status="failed", reason="handler_raised"))
    return won


def test_last_lines_of_an_earlier_attempt_are_kept_while_the_next_one_waits(store: Store) -> None:
    first = ended_badly(store)
    seen = owned(store, first.fence.job_id)
    store.jobs.requeue(
        seen.job,
        credential_hash="f" * 64,
        claim_window=30.0,
        queue_budget=None,
        revision=None,
        config_digest="",
        actor=None,
    )
    assert add(store, first, "last words")
    stored = store.logs.after(first.fence.job_id, 0, 10)
    assert [(line.message, line.attempt) for line in stored][-1] == ("last words", 1)
    assert_sound(store)


def test_attempts_come_in_their_order(store: Store) -> None:
    first = ended_badly(store)
    second = next_attempt(store, first)
    found = store.attempts.of(first.fence.job_id)
    assert [attempt.attempt for attempt in found] == [1, 2]
    assert [attempt.id for attempt in found] == [first.attempt_id, second.attempt_id]
    assert [attempt.end_status for attempt in found] == ["failed", None]
    assert store.attempts.of(10**9) == []
