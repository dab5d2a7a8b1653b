"""How one line of a log looks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from markupsafe import Markup, escape

from flask_jobrunner.model import words
from flask_jobrunner.model.records import LogLine, OwnedJob
from flask_jobrunner.protocol.redact import mask_value
from flask_jobrunner.runtime import Runtime

from . import preferences
from .ansi import coloured
from .format import plain

LINE_SHOWN = 4000
"""Characters of one line that a tail shows; the log's own page shows it whole."""

_MARKS = {
    "stdout": ("out", ""),
    "stderr": ("err", "r"),
    "warning": ("warn", "w"),
    "error": ("error", "e"),
    "debug": ("debug", "d"),
}


SYSTEM = ("system", "s")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineView:
    """One line; `text` is safe markup, the rest is escaped into its element."""

    id: str
    seq: int
    clock: str
    text: Markup
    mark: str
    css: str
    offset: str
    context: str = ""
    cut: int = 0


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

    def clock(self, at: datetime) -> str:
        """The time of day."""
        return at.astimezone(self.zone).strftime("%H:%M:%S")

    def offset(self, at: datetime) -> str:
        """The time since the start."""
        return offset_text((at - self.begun).total_seconds())


def line_view(line: LogLine, style: LineStyle) -> LineView:
    """How a line looks: its mark says stream or level in a word, colour only repeats it."""
    text, cut = coloured(line.message, style.limit)
    mark, css = _MARKS.get(line.level) or _MARKS.get(line.stream) or ("", "")
    if not (mark or line.stream) and words.is_runners_own(line.message):
        mark, css = SYSTEM
    return LineView(
        id=f"L{line.seq}",
        seq=line.seq,
        clock=style.clock(line.created_at),
        text=highlighted(text, style.text) if style.text else text,
        mark=mark,
        css=css,
        context=_context(line.context, style.keys),
        cut=cut,
        offset=style.offset(line.created_at),
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


def _context(context: dict[str, Any] | None, keys: Sequence[str]) -> str:
    if not context:
        return ""
    masked = mask_value(context, keys)
    pairs = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in masked.items())
    return plain(" ".join(pairs))[:LINE_SHOWN]
