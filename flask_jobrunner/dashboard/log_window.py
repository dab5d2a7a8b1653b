"""The log's own page: any part of it, searched and filtered, without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flask_jobrunner.model.records import LogLine, OwnedJob
from flask_jobrunner.repositories.line_filter import Found, LineFilter
from flask_jobrunner.runtime import Runtime

from . import system_lines
from .format import thousands
from .line_view import LineStyle
from .log_panel import FIRST_LINES, LogPanel, count_text, fitting, nothing_text, row_views
from .log_query import LogQuery
from .system_lines import Row

PAGE_BYTES = 1 << 20
"""Of text on one page: its lines are shown whole, and each may have 16 kB."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the log the page is; nothing set means its end."""

    line: int | None = None
    before: int | None = None
    after: int | None = None


@dataclass(frozen=True, kw_only=True)
class LogWindow(LogPanel):
    """One page of a log."""

    first_url: str | None = None
    earlier_url: str | None = None
    later_url: str | None = None
    last_url: str | None = None
    searched: str = ""
    """What is said about a search or a filter that came to an end of its time, or to nothing."""
    previous_url: str | None = None
    next_url: str | None = None
    first_error_url: str | None = None
    filtered: bool = False


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Lines next to each other, and whether wanted ones may lie before and behind."""

    lines: list[LogLine]
    more_before: int | None
    more_after: int | None
    left: tuple[int, int] | None = None


def find(runtime: Runtime, owned: OwnedJob, asked: LogQuery, direction: str, line: int) -> Found:
    """The next or the previous line with the text, seen from `line`; or the first error."""
    if direction == "error":
        return _search(runtime, owned, LineFilter(levels=("error",)), after=line, limit=1)
    if direction == "previous":
        return _search(
            runtime, owned, asked.sought, until=max(0, line - 1), limit=1, backwards=True
        )
    return _search(runtime, owned, asked.sought, after=line, limit=1)


def window(runtime: Runtime, owned: OwnedJob, asked: LogQuery, place: Place) -> LogWindow:
    """The page at a place of the log."""
    found = _bounded(_slice(runtime, owned, asked.shown, place), place)
    total, lines = owned.log_seq, found.lines
    style = LineStyle.of(runtime, owned, whole=True, text=asked.text)
    here = place.line or (lines[0].seq - 1 if lines else 0)
    earlier, later = found.more_before, found.more_after
    return LogWindow(
        lines=row_views(_with_events(runtime, owned, asked, found), style),
        first=lines[0].seq if lines else 0,
        cursor=lines[-1].seq if lines else 0,
        shown=_shown(lines, total, filtered=bool(asked.shown)),
        nothing="There are no lines here."
        if asked.shown or place != Place()
        else nothing_text(owned),
        first_url=None if earlier is None else asked.url(after=0),
        earlier_url=None if earlier is None else asked.url(before=earlier),
        later_url=None if later is None else asked.url(after=later),
        last_url=None if later is None else asked.url(),
        searched=not_looked_through(found.left) if found.left else "",
        previous_url=_step(asked, "previous", here),
        next_url=_step(asked, "next", here),
        first_error_url=asked.url(find="error") if owned.job.error_count else None,
        filtered=bool(asked.shown),
    )


def _with_events(runtime: Runtime, owned: OwnedJob, asked: LogQuery, found: Slice) -> list[Row]:
    """The lines and what was done to the job; among some lines only, nobody asked for that."""
    if not found.lines or asked.level or asked.stream:
        return [*found.lines]
    events = [
        event
        for event in system_lines.events_of(runtime, owned)
        if asked.attempt in (None, event.attempt)
    ]
    at_end = found.more_after is None and found.left is None
    return system_lines.woven(runtime, owned, found.lines, events, to_the_end=at_end)


def not_looked_through(left: tuple[int, int]) -> str:
    """The words for a search that came to the end of its time."""
    after, until = left
    return (
        f"The log is long: lines {thousands(after + 1)} to {thousands(until)} were not looked "
        "through yet."
    )


def _step(asked: LogQuery, direction: str, here: int) -> str | None:
    if not asked.text:
        return None
    return asked.url(**{"find": direction, "from": here})


def _slice(runtime: Runtime, owned: OwnedJob, wanted: LineFilter, place: Place) -> Slice:
    total = owned.log_seq
    if place.line is not None:
        half = FIRST_LINES // 2
        middle = max(1, min(place.line, total))
        if not wanted:
            return _after(runtime, owned, wanted, max(0, middle - half - 1))
        above = _search(runtime, owned, wanted, until=middle - 1, limit=half, backwards=True)
        below = _search(runtime, owned, wanted, after=middle - 1, limit=half)
        lines = above.lines + below.lines
        return Slice(
            lines=lines,
            more_before=_edge_before(above, half),
            more_after=_edge_after(below, half),
            left=above.left or below.left,
        )
    if place.after is not None:
        return _after(runtime, owned, wanted, place.after)
    until = total if place.before is None else min(total, place.before - 1)
    found = _search(runtime, owned, wanted, until=until, limit=FIRST_LINES, backwards=True)
    return Slice(
        lines=found.lines,
        more_before=_edge_before(found, FIRST_LINES),
        more_after=until if until < total else None,
        left=found.left,
    )


def _bounded(found: Slice, place: Place) -> Slice:
    """As many of the lines as a page may have bytes, those nearest to the place."""
    lines = found.lines
    if place.line is not None:
        above = [line for line in lines if line.seq < place.line]
        below = fitting(lines[len(above) :], PAGE_BYTES // 2, None)
        lines = fitting(above[::-1], PAGE_BYTES // 2, None)[::-1] + below
    elif place.after is not None:
        lines = fitting(lines, PAGE_BYTES, None)
    else:
        lines = fitting(lines[::-1], PAGE_BYTES, None)[::-1]
    if len(lines) == len(found.lines):
        return found
    first, last = lines[0], lines[-1]
    return replace(
        found,
        lines=lines,
        more_before=found.more_before if first is found.lines[0] else first.seq,
        more_after=found.more_after if last is found.lines[-1] else last.seq,
    )


def _after(runtime: Runtime, owned: OwnedJob, wanted: LineFilter, seq: int) -> Slice:
    found = _search(runtime, owned, wanted, after=seq, limit=FIRST_LINES)
    later = _edge_after(found, FIRST_LINES)
    return Slice(
        lines=found.lines,
        more_before=found.lines[0].seq if found.lines and found.lines[0].seq > 1 else None,
        more_after=None if later is None or later >= owned.log_seq else later,
        left=found.left,
    )


def _search(
    runtime: Runtime,
    owned: OwnedJob,
    wanted: LineFilter,
    *,
    after: int = 0,
    until: int | None = None,
    limit: int,
    backwards: bool = False,
) -> Found:
    end = owned.log_seq if until is None else until
    return runtime.logs.search(
        owned.job.id, wanted, after=after, until=end, limit=limit, backwards=backwards
    )


def _edge_before(found: Found, limit: int) -> int | None:
    if found.left is not None:
        return found.left[1] + 1
    full = len(found.lines) == limit and found.lines[0].seq > 1
    return found.lines[0].seq if full else None


def _edge_after(found: Found, limit: int) -> int | None:
    if found.left is not None:
        return found.left[0]
    return found.lines[-1].seq if len(found.lines) == limit else None


def _shown(lines: Sequence[LogLine], total: int, *, filtered: bool) -> str:
    if filtered and lines:
        return (
            f"{thousands(len(lines))} of the lines {thousands(lines[0].seq)} to "
            f"{thousands(lines[-1].seq)}, of {thousands(total)}"
        )
    return count_text(lines, total)
