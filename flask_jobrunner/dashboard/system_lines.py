"""What was done to a job, told in its place among the lines of its log.

The runner's own first and last line of an attempt are stored with the others. Here are the deeds
that leave no line: who asked for a stop, who requeued, what ended the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import escape

from flask_jobrunner.model.records import Event, LogLine, OwnedJob
from flask_jobrunner.model.statuses import TERMINAL
from flask_jobrunner.runtime import Runtime

from . import timeline
from .format import visible
from .line_view import SYSTEM, LineStyle, LineView

_NEW_ATTEMPT = ("requeue", "restart")
OUT_OF_ORDER = 20
"""Lines within which times may go back, as threads print at once and clocks are set."""
_UNTOLD = (*_NEW_ATTEMPT, "cancel", "force_stop", "stop", "resumed", "kill", "fail", "close")

Row = LogLine | Event
_Key = tuple[int, int, datetime]


@dataclass(frozen=True, kw_only=True)
class Told:
    """Which events a page shows already."""

    event: int = 0
    """The last of them."""
    version: int = 0
    """The version of the job's row up to which none is missing."""


def events_of(runtime: Runtime, owned: OwnedJob, after: int = 0) -> list[Event]:
    """The events without a line of their own, after the one with this id."""
    events = runtime.events.of(owned.job.id)
    return [event for event in events if event.id > after and event.action in _UNTOLD]


def woven(
    runtime: Runtime,
    owned: OwnedJob,
    lines: Sequence[LogLine],
    events: Sequence[Event],
    *,
    to_the_end: bool,
) -> list[Row]:
    """Lines next to each other, with the events between them and right before them.

    Those behind the last line belong to whoever shows the next one; `to_the_end` there is none.
    """
    if not lines or not events:
        return [*lines]
    first = lines[0].seq
    before = runtime.logs.before(owned.job.id, first, OUT_OF_ORDER) if first > 1 else []
    least = max(map(_line_key, before), default=None)
    here = [event for event in events if least is None or key(event) >= least]
    return merged(lines, here, to_the_end=to_the_end)


def merged(lines: Sequence[LogLine], events: Sequence[Event], *, to_the_end: bool) -> list[Row]:
    """The events in front of the first line that came later."""
    rows: list[Row] = []
    waiting = deque(sorted(events, key=key))
    for line in lines:
        while waiting and key(waiting[0]) < _line_key(line):
            rows.append(waiting.popleft())
        rows.append(line)
    return [*rows, *waiting] if to_the_end else rows


def told(
    shown: Sequence[Event], owned: OwnedJob, *, all_of_them: bool, before: Told | None = None
) -> Told:
    """What a page knows that was given these."""
    before = before or Told()
    return Told(
        event=max([before.event, *(event.id for event in shown)]),
        version=owned.row_version if all_of_them else before.version,
    )


def key(event: Event) -> _Key:
    """Where among the lines: clocks of two hosts may disagree, the attempts do not."""
    if event.action in _NEW_ATTEMPT:
        return event.attempt, 0, event.at
    return event.attempt, 2 if event.to_status in TERMINAL else 1, event.at


def _line_key(line: LogLine) -> _Key:
    return line.attempt, 1, line.created_at


def event_view(event: Event, style: LineStyle) -> LineView:
    """How an event looks among lines: without a number, as no line of the log is it."""
    [entry] = timeline.entries([event])
    who = f" by {entry.who}" if entry.who else ""
    why = f": {entry.why}" if entry.why else ""
    mark, css = SYSTEM
    return LineView(
        id=f"E{event.id}",
        seq=0,
        clock=style.clock(event.at),
        text=escape(visible(f"{entry.what}{who}{why}")),
        mark=mark,
        css=css,
        offset=style.offset(event.at),
    )
