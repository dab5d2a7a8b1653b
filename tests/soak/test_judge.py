"""The soak's judge has teeth: whatever must never happen is told, each by its own check."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from soak.app import SECRET
from soak.evidence import Evidence
from soak.judge import CHECKS, judge, judge_pruned

A, B = "uuid-a", "uuid-b"
SECOND = 1_000_000


def job(number: int, uuid: str, **values: Any) -> dict[str, Any]:
    return {
        "id": number,
        "job_uuid": uuid,
        "status": "succeeded",
        "attempt": 1,
        "lock_key": "red",
        "active_lock_key": None,
        "log_seq": 2,
        "row_version": 4,
        "worker_token_hash": None,
        "error_message": None,
        "heartbeat_at": 20 * SECOND,
        "finished_at": 20 * SECOND,
        **values,
    }


def event(
    number: int, job_id: int, action: str, before: str | None, after: str | None, **values: Any
) -> dict[str, Any]:
    made = {"id": number, "job_id": job_id, "action": action, "attempt": 1, "actor": "ann"}
    return made | {"from_status": before, "to_status": after, "at": number * SECOND, **values}


def attempt(number: int, job_id: int, **values: Any) -> dict[str, Any]:
    return {
        "id": number,
        "job_id": job_id,
        "attempt": 1,
        "mode": "trusted",
        "worker_token": f"token-{number}",
        "worker_pid": 100 + number,
        "parent_pid": 7,
        "parent_ticks": 1,
        "claimed_at": 2 * SECOND,
        "handler_started_at": 2 * SECOND,
        "ended_at": 20 * SECOND,
        "end_status": "succeeded",
        **values,
    }


def note(what: str, uuid: str, fence: int, **values: Any) -> dict[str, Any]:
    made = {"what": what, "uuid": uuid, "attempt": 1, "fence": fence, "pid": 100 + fence}
    return made | {"wall": 3.0, **values}


def call(what: str, uuid: str, status: str, answer: str = "ok") -> dict[str, Any]:
    return {"call": what, "uuid": uuid, "status": status, "answer": answer}


def line(number: int, job_id: int, seq: int, **values: Any) -> dict[str, Any]:
    return {"id": number, "job_id": job_id, "seq": seq, "attempt": 1, "message": "hello", **values}


def good() -> Evidence:
    """Two jobs that shared a key: one succeeded, the other was cancelled before that."""
    cancelled = job(2, B, status="cancelled", row_version=5)
    return Evidence(
        history=[
            call("start", A, "started"),
            call("enqueue", B, "queued"),
            call("cancel", B, "cancel_requested"),
            {"call": "lines", "uuid": A, "after": 0, "numbers": [1, 2]},
        ],
        ledger=[
            note("start", A, 2, wall=12.5),
            note("end", A, 2, wall=19.0),
            note("start", B, 1, wall=3.0),
            note("stop", B, 1, wall=3.5),
        ],
        jobs=[job(1, A), cancelled],
        attempts=[
            attempt(1, 2, ended_at=8 * SECOND, end_status="cancelled"),
            attempt(2, 1, claimed_at=12 * SECOND, handler_started_at=12 * SECOND),
        ],
        events=[
            event(1, 2, "enqueue", None, "queued"),
            event(2, 2, "claim", "queued", "running"),
            event(3, 2, "cancel", "running", "cancel_requested"),
            event(8, 2, "finish", "cancel_requested", "cancelled"),
            event(11, 1, "start", None, "queued"),
            event(12, 1, "claim", "queued", "running"),
            event(20, 1, "finish", "running", "succeeded"),
        ],
        logs=[line(1, 1, 1), line(2, 1, 2), line(3, 2, 1), line(4, 2, 2)],
    )


def change(rows: str, place: int, **values: Any) -> Callable[[Evidence], None]:
    return lambda seen: getattr(seen, rows)[place].update(values)


def add(rows: str, *more: Any) -> Callable[[Evidence], None]:
    return lambda seen: getattr(seen, rows).extend(more)


# The invariant, and what breaks it.
BROKEN: list[tuple[str, Callable[[Evidence], None]]] = [
    ("I1", add("ledger", note("start", A, 2, wall=13.0))),
    ("I2", add("history", call("enqueue", "uuid-c", "queued"))),
    ("I3", add("events", event(21, 1, "end", "running", "failed"))),
    ("I4", change("logs", 0, attempt=2)),
    ("I5", change("history", 0, answer="fail", status="launch_failed")),
    ("I5", change("events", 3, from_status="queued")),
    ("I6", change("jobs", 0, active_lock_key="hash")),
    ("I6", change("jobs", 0, status="running")),
    ("I6", change("events", 4, at=4 * SECOND)),
    ("I7", change("logs", 1, seq=3)),
    ("I7", change("jobs", 0, log_seq=3)),
    ("I7", change("history", 3, numbers=[2, 3])),
    ("I7", change("history", 3, numbers=[1, 1, 2])),
    ("I8", change("attempts", 1, handler_started_at=None)),
    ("I8", change("attempts", 1, ended_at=5 * SECOND)),
    ("I9", change("attempts", 1, worker_pid=5)),
    ("I9", change("ledger", 0, fence=9)),
    ("I10", change("events", 6, action="end", to_status="interrupted", at=15 * SECOND)),
    ("I11", change("events", 6, attempt=2)),
    ("I11", change("events", 5, from_status="failed")),
    ("I11", change("jobs", 0, status="failed")),
    ("I12", change("jobs", 0, status="running")),
    ("I13", change("jobs", 0, worker_token_hash="hash")),
    ("I13", change("logs", 0, message=f"password={SECRET}")),
    ("I13", change("jobs", 1, error_message=SECRET)),
    ("I13", lambda seen: seen.texts.update({"work-1.log": SECRET})),
    ("I14", add("bystanders_gone", 4711)),
    ("I15", change("ledger", 1, what="alive")),
    ("I16", change("attempts", 1, worker_token="token-1")),
    ("I16", add("attempts", attempt(3, 1, attempt=1))),
    ("I17", change("jobs", 0, row_version=1)),
    ("I18", change("events", 2, action="finish")),
    ("I18", add("history", call("cancel", A, "cancel_requested"))),
    ("I19", add("crowds", "work-1 had 3 children at once")),
    ("I19", add("attempts", *(attempt(n, 9, claimed_at=13 * SECOND) for n in (7, 8)))),
    ("I20", add("logs", line(9, 77, 1))),
    ("I23", change("logs", 0, message="x" * 20_000)),
    ("I24", change("events", 0, actor=None)),
    ("I25", add("events", event(21, 1, "stop", None, None))),
    ("I25", change("jobs", 0, heartbeat_at=25 * SECOND)),
]


def test_a_good_history_is_not_blamed() -> None:
    assert judge(good()) == []


@pytest.mark.parametrize(
    ("invariant", "breaks"), BROKEN, ids=[f"{n}-{name}" for n, (name, _) in enumerate(BROKEN)]
)
def test_what_must_never_happen_is_told(invariant: str, breaks: Callable[[Evidence], None]) -> None:
    seen = good()
    breaks(seen)

    assert invariant in {one.invariant for one in judge(seen)}


def test_each_check_is_shown_to_find_something() -> None:
    assert {invariant for invariant, _ in BROKEN} == set(CHECKS)


def test_retention_may_not_take_what_is_lost_and_leaves_nothing_behind() -> None:
    before = good()
    before.jobs[0]["status"] = "lost"
    after = deepcopy(before)
    after.jobs, after.logs = after.jobs[1:], []

    found = judge_pruned(before, after)

    assert [(one.invariant, one.job) for one in found] == [("I20", A), ("I20", "1"), ("I20", "1")]
