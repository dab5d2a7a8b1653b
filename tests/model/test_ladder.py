"""How a stopped attempt came to its end, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flask_jobrunner.model.ladder import ladder, silence, silent_since
from flask_jobrunner.model.records import NOBODY, Attempt, Event

START = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def event(action: str, seconds: float, **values: Any) -> Event:
    defaults: dict[str, Any] = {
        "actor": None,
        "from_status": None,
        "to_status": None,
        "attempt": 1,
        "reason": None,
        "evidence": None,
    }
    return Event(action=action, at=at(seconds), **defaults | values)


def attempt(**values: Any) -> Attempt:
    names = "handler_started_at ended_at end_status end_reason exit_code signal peak_rss cpu_us"
    names += " error_class error_message traceback evidence revision"
    defaults: dict[str, Any] = dict.fromkeys(names.split())
    defaults |= {"id": 1, "attempt": 1, "mode": "token", "worker": NOBODY, "parent": NOBODY}
    return Attempt(**defaults | {"claimed_at": START} | values)


CANCEL = event("cancel", 41, actor="ann")
ANN = "ann asked it to stop after 41.0 s."
END = event("end", 47)
KILLED = "It did not stop in its time and was killed"


@pytest.mark.parametrize(
    ("events", "ended", "told"),
    [
        ([event("finish", 5)], {}, []),
        ([event("end", 5)], {"signal": 9}, []),
        (
            [CANCEL, event("finish", 42.5)],
            {"exit_code": 0},
            [ANN, "It stopped by itself 1.5 s later."],
        ),
        (
            [CANCEL, END],
            {"signal": 15, "evidence": {"killed": "cancel"}},
            [ANN, "Its process ended on TERM by its parent, 6.0 s later."],
        ),
        (
            [CANCEL, END],
            {"signal": 9, "evidence": {"killed": "cancel"}},
            [ANN, f"{KILLED} by its parent, 6.0 s later."],
        ),
        (
            [CANCEL, event("force_stop", 44, actor="bob"), END],
            {"signal": 9, "evidence": {"killed": "force"}},
            [ANN, "bob forced it to stop 3.0 s later.", f"{KILLED} by its parent, 3.0 s later."],
        ),
        (
            [CANCEL, event("kill", 46, reason="cancel_force", actor="bob"), END],
            {"signal": 9},
            [ANN, f"{KILLED} by `cancel --force` of bob, 6.0 s later."],
        ),
        (
            [event("stop", 60, reason="run_timeout"), event("kill", 61, reason="sweep"), END],
            {"signal": 15},
            [
                "Its run budget was over after 1 min 00 s.",
                "Its process ended on TERM by a sweep on its host, 0 ms later.",
            ],
        ),
        (
            [event("stop", 40, reason="stall"), event("kill", 46, reason="watchdog"), END],
            {},
            [
                "Its stall budget was over after 40.0 s.",
                "Its process was ended by its own watchdog, 7.0 s later.",
            ],
        ),
        ([CANCEL, END], {"signal": 9}, [ANN, f"{KILLED} from outside, 6.0 s later."]),
        (
            [CANCEL, END],
            {"signal": 11},
            [ANN, "Its process ended by itself, without a result, 6.0 s later."],
        ),
        ([CANCEL, END], {}, [ANN, "Its process was found gone 6.0 s later."]),
        (
            [event("cancel", 41)],
            {},
            ["Somebody asked it to stop after 41.0 s."],
        ),
        ([event("stop", 3, reason="shutdown", attempt=2)], {}, []),
    ],
)
def test_who_asked_and_which_step_ended_it(
    events: list[Event], ended: dict[str, Any], told: list[str]
) -> None:
    assert ladder(events, attempt(**ended)) == told


STALL = event("stall", 100, evidence={"silent": 60.0})


@pytest.mark.parametrize(
    ("events", "since"),
    [
        ([], None),
        ([STALL], at(40)),
        ([STALL, event("stack", 110)], at(40)),
        ([STALL, event("resumed", 120, evidence={"silent": 80.0})], None),
        ([event("stall", 1, evidence={"silent": 1.0}, attempt=2)], None),
        ([event("stall", 1)], None),
    ],
)
def test_since_when_an_attempt_is_silent(events: list[Event], since: datetime | None) -> None:
    assert silent_since(events, 1) == since


def test_a_stall_is_told_in_words() -> None:
    assert silence(event("stall", 5, evidence={"silent": 61.2})) == (
        "no progress and no output for 1 min 01 s"
    )
    assert silence(event("resumed", 9, evidence={"silent": 4.0})) == (
        "goes on, after no progress and no output for 4.0 s"
    )
    assert silence(event("stall", 5)) == ""
    assert silence(CANCEL) == ""
