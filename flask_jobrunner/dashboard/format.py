"""How values look on a page: times with their zone, durations, JSON, plain text of terminals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from markupsafe import Markup

from flask_jobrunner.model import words
from flask_jobrunner.model.records import Job
from flask_jobrunner.protocol.redact import MASK, mask_value
from flask_jobrunner.protocol.terminal import strip_escapes

VALUE_KEPT = 64 * 1024
"""Characters of a JSON value that a page shows."""
VALUE_OPEN = 4096
"""Characters up to which a value is not folded away."""

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_CHUNKS = (1, 5, 10, 25, 50, 100, 250)
"""Heights in lines: what comes into view is laid out by the chunk."""


@dataclass(frozen=True, kw_only=True)
class Clock:
    """A duration; `since` is set while it still grows, for the page to tick."""

    text: str
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Value:
    """A JSON value as a page shows it."""

    id: str
    text: str | None = None
    absent: str = ""
    hidden: bool = False
    long: bool = False
    size: str = ""
    kept: str = ""
    cut: bool = False


def name(job: Job, keys: Sequence[str]) -> str:
    """What a job is called: its title, else its type."""
    return masked("title", job.title, keys) or visible(job.job_type)


def masked(field: str, text: str | None, keys: Sequence[str]) -> str:
    """A field of a job that people wrote, as programs are told of it; empty where it is not set."""
    found = mask_value({field: text or ""}, keys)
    return visible(found[field] if isinstance(found, dict) else MASK)


def short(uuid: str) -> str:
    """Both ends of a uuid: the beginning alone is a time, and the same for neighbours."""
    return f"{uuid[:8]}…{uuid[-4:]}"


def iso(time: datetime) -> str:
    """A time for machines."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch_ms(time: datetime) -> int:
    """A time for scripts: milliseconds since 1970."""
    return int(time.timestamp() * 1000)


def when(time: datetime, zone: tzinfo, *, seconds: bool = True) -> Markup:
    """A time for people, zone included, as an element that machines can read too."""
    local = time.astimezone(zone)
    clock = local.strftime("%H:%M:%S" if seconds else "%H:%M")
    text = f"{local.day} {_MONTHS[local.month - 1]} {local.year}, {clock} {local.tzname()}"
    return Markup('<time datetime="{}">{}</time>').format(iso(time), text)


def short_time(time: datetime, zone: tzinfo, now: datetime) -> str:
    """Day and time for a table whose heading names the zone; the year when it is another."""
    local, today = time.astimezone(zone), now.astimezone(zone)
    year = "" if local.year == today.year else f" {local.year}"
    return f"{local.day} {_MONTHS[local.month - 1]}{year}, {local:%H:%M:%S}"


def moment(time: datetime, zone: tzinfo, now: datetime) -> str:
    """The same where nothing else names the zone."""
    return f"{short_time(time, zone, now)} {time.astimezone(zone):%Z}"


def ago(time: datetime, now: datetime) -> str:
    """How long ago, up to a day; past that the absolute time says more."""
    seconds = int((now - time).total_seconds())
    if seconds >= 86400:
        return f"{seconds // 86400} d ago"
    if seconds >= 3600:
        return f"{seconds // 3600} h ago"
    if seconds >= 60:
        return f"{seconds // 60} min ago"
    return f"{max(0, seconds)} s ago"


def running_for(start: datetime, now: datetime) -> Clock:
    """A duration that still grows: whole seconds, so that it does not flicker."""
    return Clock(text=whole_duration(int((now - start).total_seconds())), since=start)


def whole_duration(seconds: float) -> str:
    """A duration without fractions of a second."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else words.duration(whole)


def thousands(number: int) -> str:
    """1234567 as 1,234,567."""
    return f"{number:,}"


def chunk_size(lines: Sequence[Any]) -> int:
    """The class of height that a chunk of log lines belongs to."""
    return next((size for size in _CHUNKS if len(lines) <= size), _CHUNKS[-1])


def json_value(identity: str, value: Any, keys: Sequence[str], *, absent: str = "") -> Value:
    """A JSON value, masked and indented; long ones are folded away, very long ones cut."""
    if value is None and absent:
        return Value(id=identity, absent=absent)
    try:
        text = json.dumps(mask_value(value, keys), indent=2, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = MASK
    cut = len(text) > VALUE_KEPT
    return Value(
        id=identity,
        text=visible(text[:VALUE_KEPT] + ("…" if cut else "")),
        long=len(text) > VALUE_OPEN,
        size=words.size(len(text.encode("utf-8", "replace"))),
        kept=words.size(VALUE_KEPT),
        cut=cut,
    )


_CONTROLS = {
    **{code: chr(0x2400 + code) for code in range(32) if code not in (9, 10)},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    # JSON can name halves of a pair, which no page can be encoded with.
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    # Directional overrides could show a line as something that it does not say.
    **{code: f"\u27e8U+{code:04X}\u27e9" for code in range(0x202A, 0x202F)},
    **{code: f"\u27e8U+{code:04X}\u27e9" for code in range(0x2066, 0x206A)},
}


def coded(text: str) -> Markup:
    """A sentence of ours with what stands between backticks as code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if n % 2 else visible(part)
        for n, part in enumerate(text.split("`"))
    )


def plain(text: str) -> str:
    """Terminal output as text: escape sequences gone, a rewritten line as it was left."""
    text = strip_escapes(text)
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    return visible(text)


def visible(text: str) -> str:
    """Control characters that a browser would swallow or obey, as something one can see."""
    return text.translate(_CONTROLS)
