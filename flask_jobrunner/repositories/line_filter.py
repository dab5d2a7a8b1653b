"""Which lines of a log are looked for.

A database finds candidates, this module decides: what is upper and lower case outside of ASCII
differs from one database to the next, and colours may stand in the middle of a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Table, func, or_

from flask_jobrunner.model.records import LogLine
from flask_jobrunner.protocol.terminal import strip_escapes

_ESCAPE = "/"
_COLOURS = ("\x1b", "\x9b")


@dataclass(frozen=True, kw_only=True)
class LineFilter:
    """What a line must be; what is not set is not asked for."""

    text: str = ""
    """Stands in the line as people see it, in upper or lower case."""
    levels: tuple[str, ...] = ()
    stream: str | None = None
    """`stdout`, `stderr`, or "" for what the job said through its context or `logging`."""
    attempt: int | None = None

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return self != LineFilter()

    def conditions(self, logs: Table) -> Iterator[ColumnElement[bool]]:
        """What a database can tell: every line that matches fulfils them, and maybe others."""
        if self.levels:
            yield logs.c.level.in_(self.levels)
        if self.stream is not None:
            yield logs.c.stream == self.stream
        if self.attempt is not None:
            yield logs.c.attempt == self.attempt
        if self.text:
            yield or_(
                func.lower(logs.c.message).like(like_pattern(self.text), escape=_ESCAPE),
                *(logs.c.message.contains(colour) for colour in _COLOURS),
            )

    def matches(self, line: LogLine) -> bool:
        """Whether a candidate has the text."""
        return not self.text or self.text.lower() in strip_escapes(line.message).lower()


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search came to."""

    lines: list[LogLine] = field(default_factory=list)
    left: tuple[int, int] | None = None
    """(after, until) of the lines that there was no time for; None when none is left."""


def like_pattern(text: str) -> str:
    """A pattern for LIKE: a letter that not every database can lower stands for anything."""
    return f"%{''.join(_pattern(character) for character in text.lower())}%"


def _pattern(character: str) -> str:
    if character in ("%", "_", _ESCAPE):
        return _ESCAPE + character
    return character if character.isascii() or character.upper() == character else "%"
