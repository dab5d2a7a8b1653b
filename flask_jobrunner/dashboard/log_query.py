"""What somebody asked of a log's own page: which lines, which text, and the links that ask on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from flask import url_for

from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.repositories.line_filter import LineFilter

from . import query

TEXT_MOST = 200
ATTEMPTS_OFFERED = 50
LEVELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "info": ("Without debug", ("info", "warning", "error")),
    "warning": ("Warnings and errors", ("warning", "error")),
    "error": ("Errors", ("error",)),
}
STREAMS = {"messages": "Messages", "stdout": "stdout", "stderr": "stderr"}
DIRECTIONS = ("next", "previous", "error")

Option = tuple[str, str]
"""The value of a field, and what it is called."""


@dataclass(frozen=True, kw_only=True)
class LogQuery:
    """The parameters of the address; those of the form stay in every link."""

    uuid: str
    text: str = ""
    level: str = ""
    stream: str = ""
    attempt: int | None = None

    @property
    def shown(self) -> LineFilter:
        """The lines that the page shows."""
        return LineFilter(
            levels=LEVELS[self.level][1] if self.level else (),
            stream={"": None, "messages": ""}.get(self.stream, self.stream),
            attempt=self.attempt,
        )

    @property
    def sought(self) -> LineFilter:
        """Of these, the ones that a search stops at."""
        return replace(self.shown, text=self.text)

    def url(self, **place: Any) -> str:
        """This page at another place of the log."""
        return url_for(
            ".log",
            uuid=self.uuid,
            q=self.text or None,
            level=self.level or None,
            stream=self.stream or None,
            attempt=self.attempt,
            **place,
        )

    def line_url(self, seq: int) -> str:
        """One line with what is around it."""
        return self.url(line=seq, _anchor=f"L{seq}")


def read(owned: OwnedJob) -> LogQuery:
    """What this request asks for."""
    return LogQuery(
        uuid=owned.job.uuid,
        text=query.text("q", most=TEXT_MOST),
        level=query.choice("level", LEVELS),
        stream=query.choice("stream", STREAMS),
        attempt=_attempt() if query.text("attempt", most=1) else None,
    )


def _attempt() -> int | None:
    return query.number("attempt", low=1, high=query.ATTEMPT_MAX)


def levels() -> list[Option]:
    """What the form offers as levels."""
    return [("", "All levels"), *((value, name) for value, (name, _) in LEVELS.items())]


def streams() -> list[Option]:
    """What the form offers as sources."""
    return [("", "Messages and output"), *STREAMS.items()]


def attempts(owned: OwnedJob) -> Sequence[Option]:
    """The newest attempts; none to choose from when there was one only."""
    newest = owned.job.attempt
    if newest == 1:
        return ()
    numbers = range(newest, max(0, newest - ATTEMPTS_OFFERED), -1)
    return [("", "All attempts"), *((str(n), f"Attempt {n}") for n in numbers)]
