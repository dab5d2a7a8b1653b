"""Who asked an attempt to stop, and which step of the ladder ended it; and whether it is silent.

Read from events and the parent's report, so that a page and a command say the same.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import datetime, timedelta

from .records import Attempt, Event
from .words import between, duration

KILLERS = {
    "sweep": "a sweep on its host",
    "cancel_force": "`cancel --force`",
    "watchdog": "its own watchdog",
}
"""Who ends a process beside its parent: the reason of a `kill` event."""
_ASKED = {
    "shutdown": "It was asked to shut down",
    "stall": "Its stall budget was over",
    "run_timeout": "Its run budget was over",
}


def silent_since(events: Sequence[Event], attempt: int) -> datetime | None:
    """Since when the attempt that runs shows no sign of life, where it has a stall budget."""
    for event in reversed(events):
        if event.attempt == attempt and event.action in ("stall", "resumed"):
            silent = (event.evidence or {}).get("silent")
            if event.action == "resumed" or not isinstance(silent, (int, float)):
                return None
            return event.at - timedelta(seconds=silent)
    return None


def silence(event: Event) -> str:
    """What a stall was, or how long it lasted; empty for every other event."""
    silent = (event.evidence or {}).get("silent")
    if event.action not in ("stall", "resumed") or not isinstance(silent, (int, float)):
        return ""
    how_long = f"no progress and no output for {duration(silent)}"
    return how_long if event.action == "stall" else f"goes on, after {how_long}"


def ladder(events: Sequence[Event], attempt: Attempt) -> list[str]:
    """The sentences on how an attempt was stopped; none where nobody asked."""
    told, before = list[str](), attempt.claimed_at
    own = [event for event in events if event.attempt == attempt.attempt]
    for event in own:
        what = _asked(event)
        if what:
            told.append(f"{what} {_when(before, event.at, first=not told)}.")
            before = event.at
    end = next((event for event in reversed(own) if event.action in ("finish", "end")), None)
    if told and end is not None:
        later = duration(between(before, end.at) or 0)
        told.append(f"{_ended(attempt, end, own)} {later} later.")
    return told


def _when(before: datetime, at: datetime, *, first: bool) -> str:
    passed = duration(between(before, at) or 0)
    return f"after {passed}" if first else f"{passed} later"


def _asked(event: Event) -> str:
    who = event.actor or "Somebody"
    if event.action == "cancel":
        return f"{who} asked it to stop"
    if event.action == "force_stop":
        return f"{who} forced it to stop"
    return _ASKED.get(event.reason or "", "") if event.action == "stop" else ""


def _ended(attempt: Attempt, end: Event, own: Sequence[Event]) -> str:
    if end.action == "finish":
        return "It stopped by itself"
    by = _killer(attempt, own)
    if attempt.signal == signal.SIGTERM:
        return f"Its process ended on TERM{by},"
    if attempt.signal == signal.SIGKILL:
        return f"It did not stop in its time and was killed{by or ' from outside'},"
    if attempt.exit_code is not None or attempt.signal is not None:
        return "Its process ended by itself, without a result,"
    return f"Its process was ended{by}," if by else "Its process was found gone"


def _killer(attempt: Attempt, own: Sequence[Event]) -> str:
    if (attempt.evidence or {}).get("killed"):
        return " by its parent"
    event = next((one for one in reversed(own) if one.action == "kill"), None)
    if event is None:
        return ""
    by = f" of {event.actor}" if event.actor else ""
    return f" by {KILLERS.get(event.reason or '', 'another process')}{by}"
