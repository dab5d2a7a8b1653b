"""The supervisor's own log: a readable line on a terminal, one JSON object a line elsewhere."""

from __future__ import annotations

import contextlib
import json
import re
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Level = Literal["debug", "info", "warning", "error"]
# What a terminal would act upon: last words of a process may hold anything.
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MARKS: dict[Level, str] = {"debug": " ", "info": " ", "warning": "!", "error": "E"}


class Log:
    """`event` is for programs, `text` for people; both get the fields."""

    def __init__(self, stream: TextIO, *, as_json: bool) -> None:
        self._stream = stream
        self._as_json = as_json

    def detail(self, event: str, text: str, **fields: Any) -> None:
        """For programs alone: people would not want to read it all."""
        if self._as_json:
            self._write("debug", event, text, fields)

    def info(self, event: str, text: str, **fields: Any) -> None:
        """As it should be."""
        self._write("info", event, text, fields)

    def warning(self, event: str, text: str, **fields: Any) -> None:
        """It goes on, and somebody should know."""
        self._write("warning", event, text, fields)

    def error(self, event: str, text: str, **fields: Any) -> None:
        """Somebody has to do something."""
        self._write("error", event, text, fields)

    def _write(self, level: Level, event: str, text: str, fields: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        if self._as_json:
            told = {"ts": now.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
            told |= {"level": level, "event": event, "message": text, **fields}
            line = json.dumps(told, default=str)
        else:
            line = f"{now.astimezone():%H:%M:%S} {_MARKS[level]} {_ACTIVE.sub('?', text)}"
        # A terminal that was closed, or a pipe that nobody reads, must not end a supervisor.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()
