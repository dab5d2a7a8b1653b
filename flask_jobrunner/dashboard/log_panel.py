"""Which lines of a log a page or a poll shows, and how one line looks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from flask import url_for
from markupsafe import Markup, escape

from flask_jobrunner.model import words
from flask_jobrunner.model.records import LogLine, OwnedJob
from flask_jobrunner.protocol.redact import mask_value
from flask_jobrunner.runtime import Runtime

from . import preferences
from .ansi import coloured
from .format import plain, thousands

FIRST_LINES = 1000
FIRST_BYTES = 512 * 1024
POLL_LINES = 500
POLL_BYTES = 64 * 1024
LINE_SHOWN = 4000
"""Characters of one line that a tail shows; the log's own page shows it whole."""
FAR = 5000
"""Lines that a page may be behind: with more, it goes on at the end and says what it left out."""

_MARKS = {
    "stdout": ("out", ""),
    "stderr": ("err", "r"),
    "warning": ("warn", "w"),
    "error": ("error", "e"),
    "debug": ("debug", "d"),
}


@dataclass(frozen=True, slots=True)
class LineView:
    """One line; `text` is safe markup, the rest is escaped into its element."""

    seq: int
    clock: str
    text: Markup
    mark: str
    css: str
    context: str
    cut: int
    offset: str


@dataclass(frozen=True, kw_only=True)
class LineStyle:
    """How the lines of one log are shown."""

    zone: tzinfo
    begun: datetime
    """What offsets are counted from: the start of the newest attempt."""
    keys: Sequence[str] = ()
    limit: int | None = LINE_SHOWN
    text: str = ""
    """What a search looked for."""

    @classmethod
    def of(
        cls, runtime: Runtime, owned: OwnedJob, *, whole: bool = False, text: str = ""
    ) -> LineStyle:
        """The style of a job's lines; `whole` ones on the log's own page."""
        return cls(
            zone=preferences.zone(runtime),
            begun=owned.job.started_at or owned.job.queued_at,
            keys=runtime.config.redact_keys,
            limit=None if whole else LINE_SHOWN,
            text=text,
        )


@dataclass(frozen=True, kw_only=True)
class LogPanel:
    """A slice of a log with what is said around it."""

    lines: list[LineView] = field(default_factory=list)
    cursor: int = 0
    """The last line that was shown; polls go on after it."""
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
    lines = _fitting(runtime.logs.newest(owned.job.id, FIRST_LINES)[::-1], FIRST_BYTES)[::-1]
    shown, active = count_text(lines), owned.job.is_active
    return _panel(runtime, owned, lines, cursor=_last(owned, lines), shown=shown, tailing=active)


def following(runtime: Runtime, owned: OwnedJob, cursor: int) -> LogPanel:
    """The lines after `cursor`, for a poll; no query when the row says that there are none."""
    lines: list[LogLine] = []
    start = cursor if owned.log_seq - cursor <= FAR else owned.log_seq - POLL_LINES
    if owned.log_seq > cursor:
        lines = _fitting(runtime.logs.after(owned.job.id, start, POLL_LINES), POLL_BYTES)
    last = lines[-1].seq if lines else _last(owned, lines)
    shown = f"{thousands(last)} line{'' if last == 1 else 's'}"
    return _panel(runtime, owned, lines, cursor=last, shown=shown, left_out=start - cursor)


def lines_before(runtime: Runtime, owned: OwnedJob, seq: int) -> list[LineView]:
    """Some lines right before `seq`."""
    found = runtime.logs.before(owned.job.id, seq, POLL_LINES)
    style = LineStyle.of(runtime, owned)
    return [line_view(line, style) for line in _fitting(found[::-1], FIRST_BYTES)[::-1]]


def _panel(
    runtime: Runtime,
    owned: OwnedJob,
    lines: Sequence[LogLine],
    *,
    shown: str,
    cursor: int,
    tailing: bool = False,
    left_out: int = 0,
) -> LogPanel:
    style = LineStyle.of(runtime, owned)
    return LogPanel(
        lines=[line_view(line, style) for line in lines],
        cursor=cursor,
        shown=shown,
        size=size_text(owned),
        nothing=nothing_text(owned),
        url=url_for(".log", uuid=owned.job.uuid),
        left_out=left_out,
        errors=owned.job.error_count > 0,
        tailing=tailing,
    )


def line_view(line: LogLine, style: LineStyle) -> LineView:
    """How a line looks: its mark says stream or level in a word, colour only repeats it."""
    text, cut = coloured(line.message, style.limit)
    mark, css = _MARKS.get(line.level) or _MARKS.get(line.stream) or ("", "")
    return LineView(
        seq=line.seq,
        clock=line.created_at.astimezone(style.zone).strftime("%H:%M:%S"),
        text=highlighted(text, style.text) if style.text else text,
        mark=mark,
        css=css,
        context=_context(line.context, style.keys),
        cut=cut,
        offset=offset_text((line.created_at - style.begun).total_seconds()),
    )


def highlighted(text: Markup, sought: str) -> Markup:
    """`text` with what was looked for marked, where no colour divides it."""
    shown, wanted = text.unescape(), sought.lower()
    lowered = shown.lower()
    if "<span" in text or len(lowered) != len(shown):
        return text
    parts, place = list[Markup](), 0
    while (found := lowered.find(wanted, place)) >= 0:
        end = found + len(wanted)
        parts += [escape(shown[place:found]), Markup("<mark>{}</mark>").format(shown[found:end])]
        place = end
    return Markup("").join([*parts, escape(shown[place:])])


def offset_text(seconds: float) -> str:
    """1:02:03 since the start; a line of an earlier attempt lies before it."""
    minutes, rest = divmod(int(abs(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if seconds <= -1 else ""
    return f"{sign}{hours}:{minutes:02}:{rest:02}" if hours else f"{sign}{minutes}:{rest:02}"


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


def _last(owned: OwnedJob, lines: Sequence[LogLine]) -> int:
    """Up to which line a page knows the log. Lines that were removed are not waited for."""
    return max(owned.log_seq, lines[-1].seq if lines else 0)


def _fitting(lines: Iterable[LogLine], size: int) -> list[LogLine]:
    """As many lines as fit, at least one."""
    kept: list[LogLine] = []
    for line in lines:
        size -= min(len(line.message), LINE_SHOWN) + 60
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


def _context(context: dict[str, Any] | None, keys: Sequence[str]) -> str:
    if not context:
        return ""
    masked = mask_value(context, keys)
    pairs = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in masked.items())
    return plain(" ".join(pairs))[:LINE_SHOWN]
