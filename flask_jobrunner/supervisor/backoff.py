"""Pauses that grow while something does not work."""

from __future__ import annotations

import random
import time
from collections.abc import Callable


class Backoff:
    """Seconds of pause: `first`, doubled with every failure, at most `most`, a fifth more or less.

    Failures during a pause belong to the one that began it.
    """

    def __init__(
        self, first: float, most: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._first = first
        self._most = most
        self._clock = clock
        self._until = 0.0
        self.failures = 0

    @property
    def left(self) -> float:
        """Seconds of the pause that are left; 0 when there is none."""
        return max(0.0, self._until - self._clock())

    def fail(self) -> float | None:
        """Begin a pause: its seconds. None while one goes on."""
        if self.left > 0:
            return None
        pause = min(self._most, self._first * 2.0**self.failures)
        self.failures = min(self.failures + 1, 30)
        self._until = self._clock() + pause * random.uniform(0.8, 1.2)
        return self._until - self._clock()

    def succeed(self) -> bool:
        """It works; True when it had not."""
        had_failed = self.failures > 0
        self.failures, self._until = 0, 0.0
        return had_failed
