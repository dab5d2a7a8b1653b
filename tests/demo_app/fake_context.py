"""A context for handlers under test: keeps what they say, and can ask them to stop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from flask import Flask

from flask_jobrunner import JobCancelled


class FakeContext:
    """The part of `JobContext` that the demo's handlers use."""

    def __init__(self, app: Flask, payload: Any, *, cancel_after: int | None = None) -> None:
        self.app = app
        self.payload = payload
        self.lines: list[tuple[str, str]] = []
        self.steps: list[tuple[str, int, int]] = []
        self.done: list[tuple[int, int | None]] = []
        self._checks_left = cancel_after

    def info(self, message: str, **_: Any) -> None:
        self.lines.append(("info", message))

    def warning(self, message: str, **_: Any) -> None:
        self.lines.append(("warning", message))

    def debug(self, message: str, **_: Any) -> None:
        self.lines.append(("debug", message))

    def stdout(self, text: str) -> None:
        self.lines.append(("stdout", text))

    def set_step(self, key: str, label: str, index: int, total: int) -> None:
        assert label
        self.steps.append((key, index, total))

    def progress(self, done: int, total: int | None = None, label: str | None = None) -> None:
        self.done.append((done, total))

    def track(self, items: Iterable[Any], label: str, total: int | None = None) -> Iterator[Any]:
        for item in items:
            self.raise_if_cancelled()
            yield item

    def is_cancellation_requested(self) -> bool:
        if self._checks_left is None:
            return False
        self._checks_left -= 1
        return self._checks_left < 0

    def raise_if_cancelled(self) -> None:
        if self.is_cancellation_requested():
            raise JobCancelled

    def request_context(self) -> AbstractContextManager[Any]:
        return self.app.test_request_context(base_url="http://demo.test/")

    def said(self, kind: str) -> list[str]:
        """The lines of one kind."""
        return [message for level, message in self.lines if level == kind]
