"""Which lines of a log a page or a poll shows, and how one line looks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from flask import url_for
from markupsafe import Markup

from flask_jobrunner.model.records import LogLine, OwnedJob
from flask_jobrunner.protocol.redact import mask_value
from flask_jobrunner.runtime import Runtime

from .ansi import coloured
from .format import plain, thousands

FIRST_LINES = 1000
FIRST_BYTES = 512 * 1024
POLL_LINES = 500
POLL_BYTES = 64 * 1024
LINE_SHOWN = 4000
"""Characters of one line that a tail shows; the log's own page shows it whole."""

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


@dataclass(frozen=True, kw_only=True)
class LogPanel:
    """A slice of a log with what is said around it."""

    lines: list[LineView] = field(default_factory=list)
    cursor: int = 0
    """The last line that was shown; polls go on after it."""
    shown: str = ""
    nothing: str = ""
    url: str | None = None
    tailing: bool = False
    forbidden: bool = False


@dataclass(frozen=True, kw_only=True)
class LogWindow(LogPanel):
    """One page of a log for reading without a script."""

    first_url: str | None = None
    earlier_url: str | None = None
    later_url: str | None = None
    last_url: str | None = None


def tail(runtime: Runtime, owned: OwnedJob) -> LogPanel:
    """The newest lines, for a page that is opened."""
    job_id, config = owned.job.id, runtime.config
    lines = _fitting(list(reversed(runtime.logs.newest(job_id, FIRST_LINES))), FIRST_BYTES)[::-1]
    return LogPanel(
        lines=[line_view(line, config.timezone, config.redact_keys) for line in lines],
        cursor=lines[-1].seq if lines else 0,
        shown=_count(lines),
        nothing=nothing_text(owned),
        url=url_for(".log", uuid=owned.job.uuid),
        tailing=owned.job.is_active,
    )


def following(runtime: Runtime, owned: OwnedJob, cursor: int) -> LogPanel:
    """The lines after `cursor`, for a poll; no query when the row says that there are none."""
    config = runtime.config
    lines: list[LogLine] = []
    if owned.log_seq > cursor:
        lines = _fitting(runtime.logs.after(owned.job.id, cursor, POLL_LINES), POLL_BYTES)
    last = lines[-1].seq if lines else cursor
    return LogPanel(
        lines=[line_view(line, config.timezone, config.redact_keys) for line in lines],
        cursor=last,
        shown=f"{thousands(last)} line{'' if last == 1 else 's'}",
        nothing=nothing_text(owned),
        url=url_for(".log", uuid=owned.job.uuid),
    )


def window(runtime: Runtime, owned: OwnedJob, *, line: int | None, before: int | None) -> LogWindow:
    """The lines around `line`, those right before `before`, or the newest."""
    job_id, total, config = owned.job.id, owned.log_seq, runtime.config
    if line is not None:
        start = max(0, min(line, total) - FIRST_LINES // 2 - 1)
        lines = runtime.logs.after(job_id, start, FIRST_LINES)
    elif before is not None:
        lines = runtime.logs.before(job_id, before, FIRST_LINES)
    else:
        lines = runtime.logs.newest(job_id, FIRST_LINES)
    first, last = (lines[0].seq, lines[-1].seq) if lines else (0, 0)

    def url(before: int | None = None) -> str:
        return url_for(".log", uuid=owned.job.uuid, before=before)

    return LogWindow(
        lines=[
            line_view(entry, config.timezone, config.redact_keys, limit=None) for entry in lines
        ],
        cursor=last,
        shown=_count(lines, total),
        nothing=nothing_text(owned) if total == 0 else "There are no lines here.",
        first_url=url(before=FIRST_LINES + 1) if first > 1 else None,
        earlier_url=url(before=first) if first > 1 else None,
        later_url=url(before=last + FIRST_LINES + 1) if last < total else None,
        last_url=url() if last < total else None,
    )


def line_view(
    line: LogLine, zone: tzinfo, keys: Sequence[str], limit: int | None = LINE_SHOWN
) -> LineView:
    """How a line looks: its mark says stream or level in a word, colour only repeats it."""
    text, cut = coloured(line.message, limit)
    mark, css = _MARKS.get(line.level) or _MARKS.get(line.stream) or ("", "")
    return LineView(
        seq=line.seq,
        clock=line.created_at.astimezone(zone).strftime("%H:%M:%S"),
        text=text,
        mark=mark,
        css=css,
        context=_context(line.context, keys),
        cut=cut,
    )


def nothing_text(owned: OwnedJob) -> str:
    """What stands where the lines will be."""
    if owned.job.is_active:
        return "Waiting for the first line"
    if owned.log_seq:
        return f"The {thousands(owned.log_seq)} lines of this log were removed; they were old"
    return "This job wrote no log"


def _fitting(lines: Iterable[LogLine], size: int) -> list[LogLine]:
    """As many lines as fit, at least one."""
    kept: list[LogLine] = []
    for line in lines:
        size -= min(len(line.message), LINE_SHOWN) + 60
        if size < 0 and kept:
            break
        kept.append(line)
    return kept


def _count(lines: Sequence[LogLine], total: int | None = None) -> str:
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
