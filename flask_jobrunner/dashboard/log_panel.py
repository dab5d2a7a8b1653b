"""Which lines of a log a page or a poll shows, and what is said around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flask import url_for

from flask_jobrunner.model import words
from flask_jobrunner.model.records import Event, LogLine, OwnedJob
from flask_jobrunner.runtime import Runtime

from . import system_lines
from .format import thousands
from .line_view import LINE_SHOWN, LineStyle, LineView, line_view
from .system_lines import Row, Told, event_view

FIRST_LINES = 1000
FIRST_BYTES = 512 * 1024
POLL_LINES = 500
POLL_BYTES = 64 * 1024
FAR = 5000
"""Lines that a page may be behind: with more, it goes on at the end and says what it left out."""


@dataclass(frozen=True, kw_only=True)
class LogPanel:
    """A slice of a log with what is said around it."""

    lines: list[LineView] = field(default_factory=list)
    first: int = 0
    """The number of the first line."""
    cursor: int = 0
    """The last line that was shown; polls go on after it."""
    told: Told = field(default_factory=Told)
    shown: str = ""
    size: str = ""
    nothing: str = ""
    url: str | None = None
    left_out: int = 0
    """Lines right before these that are not shown, as they came faster than a page can show."""
    errors: bool = False
    tailing: bool = False
    forbidden: bool = False


def tail(runtime: Runtime, owned: OwnedJob) -> LogPanel:
    """The newest lines, for a page that is opened."""
    lines = fitting(runtime.logs.newest(owned.job.id, FIRST_LINES)[::-1], FIRST_BYTES)[::-1]
    events = system_lines.events_of(runtime, owned) if lines else []
    return _panel(
        runtime,
        owned,
        lines,
        system_lines.woven(runtime, owned, lines, events, to_the_end=True),
        # Lines that were removed are not waited for.
        cursor=max(owned.log_seq, lines[-1].seq if lines else 0),
        told=system_lines.told(events, owned, all_of_them=bool(lines)),
        shown=count_text(lines),
        tailing=owned.job.is_active,
    )


def following(runtime: Runtime, owned: OwnedJob, cursor: int, told: Told) -> LogPanel:
    """The lines after `cursor`, for a poll; no query when the row says that there are none."""
    lines: list[LogLine] = []
    start = cursor if owned.log_seq - cursor <= FAR else owned.log_seq - POLL_LINES
    if owned.log_seq > cursor:
        lines = fitting(runtime.logs.after(owned.job.id, start, POLL_LINES), POLL_BYTES)
    last = lines[-1].seq if lines else max(cursor, owned.log_seq)
    at_end = last >= owned.log_seq
    events = []
    # A log without a line tells nothing: the page's history does.
    if last and told.version != owned.row_version:
        events = system_lines.events_of(runtime, owned, told.event)
    rows = system_lines.merged(lines, events, to_the_end=at_end)
    shown = [row for row in rows if isinstance(row, Event)]
    return _panel(
        runtime,
        owned,
        lines,
        rows,
        cursor=last,
        told=system_lines.told(shown, owned, all_of_them=at_end and last > 0, before=told),
        shown=f"{thousands(last)} line{'' if last == 1 else 's'}",
        left_out=start - cursor,
    )


def lines_before(runtime: Runtime, owned: OwnedJob, seq: int) -> list[LineView]:
    """Some lines right before `seq`."""
    found = runtime.logs.before(owned.job.id, seq, POLL_LINES)
    lines = fitting(found[::-1], FIRST_BYTES)[::-1]
    events = system_lines.events_of(runtime, owned) if lines else []
    rows = system_lines.woven(runtime, owned, lines, events, to_the_end=False)
    return row_views(rows, LineStyle.of(runtime, owned))


def row_views(rows: Sequence[Row], style: LineStyle) -> list[LineView]:
    """How lines and events look."""
    return [
        event_view(row, style) if isinstance(row, Event) else line_view(row, style) for row in rows
    ]


def _panel(
    runtime: Runtime,
    owned: OwnedJob,
    lines: Sequence[LogLine],
    rows: Sequence[Row],
    *,
    shown: str,
    cursor: int,
    told: Told,
    tailing: bool = False,
    left_out: int = 0,
) -> LogPanel:
    return LogPanel(
        lines=row_views(rows, LineStyle.of(runtime, owned)),
        first=lines[0].seq if lines else 0,
        cursor=cursor,
        told=told,
        shown=shown,
        size=size_text(owned),
        nothing=nothing_text(owned),
        url=url_for(".log", uuid=owned.job.uuid),
        left_out=left_out,
        errors=owned.job.error_count > 0,
        tailing=tailing,
    )


def size_text(owned: OwnedJob) -> str:
    """How much a download of the whole log is."""
    return words.size(owned.log_bytes) if owned.log_bytes else ""


def nothing_text(owned: OwnedJob) -> str:
    """What stands where the lines will be."""
    if owned.job.is_active:
        return "Waiting for the first line"
    if owned.log_seq:
        if owned.log_seq == 1:
            return "The only line of this log was removed; it was old"
        return f"The {thousands(owned.log_seq)} lines of this log were removed; they were old"
    return "This job wrote no log"


def fitting(
    lines: Iterable[LogLine], size: int, line_shown: int | None = LINE_SHOWN
) -> list[LogLine]:
    """As many lines as fit, at least one."""
    kept: list[LogLine] = []
    for line in lines:
        size -= len(line.message[:line_shown]) + 60
        if size < 0 and kept:
            break
        kept.append(line)
    return kept


def count_text(lines: Sequence[LogLine], total: int | None = None) -> str:
    """Which lines these are, and of how many."""
    if not lines:
        return ""
    first, last = lines[0].seq, lines[-1].seq
    of_all = f" of {thousands(total)}" if total is not None and total > last else ""
    if first > 1 or of_all:
        return f"Lines {thousands(first)} to {thousands(last)}{of_all}"
    return f"{thousands(last)} line{'' if last == 1 else 's'}"
