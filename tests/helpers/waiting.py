"""Waiting with a deadline: the only place in the tests that pauses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.1


def eventually(
    predicate: Callable[[], T],
    *,
    timeout: float = 30.0,
    message: str | Callable[[], str] = "",
) -> T:
    """Ask until the answer is truthy and return it; fail when `timeout` seconds are over.

    `message` says what was waited for; as a callable it is asked at the end, to show evidence.
    An exception from `predicate` is not caught: a test that expects one says so itself.
    """
    deadline = time.monotonic() + timeout
    pause = FIRST_PAUSE
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            text = message() if callable(message) else message
            what = text or getattr(predicate, "__qualname__", repr(predicate))
            raise AssertionError(f"not within {timeout:g} s: {what} (last answer: {answer!r})")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def stays(
    predicate: Callable[[], object],
    *,
    seconds: float,
    message: str | Callable[[], str] = "",
) -> None:
    """Check that `predicate` holds now and all through the next `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = predicate()
        if not answer:
            text = message() if callable(message) else message
            what = text or getattr(predicate, "__qualname__", repr(predicate))
            raise AssertionError(f"stopped holding within {seconds:g} s: {what} ({answer!r})")
        if time.monotonic() >= deadline:
            return
        time.sleep(0.02)
