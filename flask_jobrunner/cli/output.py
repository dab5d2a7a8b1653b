"""What commands print: text that is safe for a terminal, tables that fit it, JSON for programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

import click

from flask_jobrunner.model.statuses import JobStatus

STATUS_COLOURS: dict[str, str] = {
    JobStatus.QUEUED: "cyan",
    JobStatus.RUNNING: "blue",
    JobStatus.CANCEL_REQUESTED: "yellow",
    JobStatus.SUCCEEDED: "green",
    JobStatus.FAILED: "red",
    JobStatus.CANCELLED: "bright_black",
    JobStatus.INTERRUPTED: "yellow",
    JobStatus.LOST: "magenta",
}

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What a terminal acts upon, and what makes a line read as something that it does not say.
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line; colours reach terminals only, and none does where NO_COLOR is set."""
    click.echo(text, err=err, color=False if os.environ.get("NO_COLOR") else None)


def remark(text: str) -> None:
    """Print a line for people beside the output, on standard error."""
    echo(text, err=True)


def echo_json(value: Any) -> None:
    """Print one JSON document, in ASCII, so that no terminal and no encoding can spoil it."""
    click.echo(json.dumps(value, indent=2))


def echo_json_line(value: Any) -> None:
    """Print one line of NDJSON."""
    click.echo(json.dumps(value, separators=(",", ":")))


def safe(text: str, *, colours: bool = False) -> str:
    """Text that a job wrote, as text: control characters are shown, not obeyed.

    `colours` lets colour sequences pass, and closes what they opened.
    """
    if not colours:
        return _ACTIVE.sub(_shown, _COLOUR.sub("", text))
    parts = list[str]()
    place, coloured = 0, False
    for match in _COLOUR.finditer(text):
        parts += _ACTIVE.sub(_shown, text[place : match.start()]), match.group()
        place, coloured = match.end(), True
    parts.append(_ACTIVE.sub(_shown, text[place:]))
    return "".join(parts) + ("\x1b[0m" if coloured else "")


def one_line(text: str) -> str:
    """`safe` text without line ends and tabs, for a place in a table."""
    return " ".join(safe(text).split())


def count(number: int, noun: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def status_word(status: str) -> str:
    """A status in its colour."""
    return click.style(status, fg=STATUS_COLOURS.get(status))


def on_terminal() -> bool:
    """Whether standard output is a terminal; there may be none, as under some timers."""
    return sys.stdout is not None and sys.stdout.isatty()


def terminal_width() -> int | None:
    """The columns of the terminal that standard output is; None where it is none."""
    return shutil.get_terminal_size().columns if on_terminal() else None


def width_of(text: str) -> int:
    """The columns that `text` takes: wide characters two, combining ones none, colours none."""
    return sum(_columns(char) for char in _COLOUR.sub("", text))


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int) -> str:
    """`text` in at most `width` columns; an ellipsis says that it was cut."""
    if width_of(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += _columns(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    give: Sequence[int] = (),
    width: int | None = None,
) -> list[str]:
    """Lines of a table; with `width`, the columns `give` are cut until it fits, the widest first.

    Cells that are cut must be plain text.
    """
    widths = [max(width_of(row[i]) for row in [header, *rows]) for i in range(len(header))]
    if width is not None:
        _shrink(widths, give, sum(widths) + 2 * (len(widths) - 1) - width)
    return [_row(row, widths) for row in [[name.upper() for name in header], *rows]]


def _shrink(widths: list[int], give: Sequence[int], excess: int) -> None:
    least = 8
    while excess > 0 and give:
        widest = max(give, key=lambda column: widths[column])
        if widths[widest] <= least:
            return
        widths[widest] -= 1
        excess -= 1


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    clipped = [clip(cell, width) for cell, width in zip(cells, widths, strict=True)]
    padded = [
        cell + " " * (width - width_of(cell)) for cell, width in zip(clipped, widths, strict=True)
    ]
    return "  ".join(padded).rstrip()
