"""When to look for the next job."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from typing import Protocol


class Wake(Protocol):
    """Something that hears of new jobs, through descriptors that the loop polls.

    `looking` says whether a new job would be taken now.
    """

    def left(self, *, looking: bool) -> float:
        """Seconds until `heard` should be asked whatever poll says."""

    def interest(self) -> dict[int, int]:
        """What to poll for, by descriptor."""

    def heard(self, ready: Mapping[int, int], *, looking: bool) -> bool:
        """Whether a new job may be there, after what poll said."""

    def close(self) -> None:
        """Hear no more."""


class Silence:
    """Nobody tells; the idle sleep alone decides."""

    def left(self, *, looking: bool) -> float:  # noqa: ARG002 - the protocol's shape
        """Never."""
        return math.inf

    def interest(self) -> dict[int, int]:
        """Nothing."""
        return {}

    def heard(self, ready: Mapping[int, int], *, looking: bool) -> bool:  # noqa: ARG002 - the same
        """Never."""
        return False

    def close(self) -> None:
        """Nothing is open."""


class Lookout:
    """At once after a hint, else when the idle sleep is over: it is the net below every `Wake`.

    `idle_sleep` is in seconds, taken a fifth shorter or longer, so that many supervisors do not
    look at once.
    """

    def __init__(
        self, wake: Wake, idle_sleep: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._wake = wake
        self._idle_sleep = idle_sleep
        self._clock = clock
        self._at = 0.0

    @property
    def left(self) -> float:
        """Seconds until the next look."""
        return max(0.0, self._at - self._clock())

    def hint(self) -> None:
        """A job may be there, or a place for one."""
        self._at = 0.0

    def rest(self, seconds: float | None = None) -> None:
        """Nothing to be had: sleep, for `seconds` or as long as usual."""
        wait = self._idle_sleep * random.uniform(0.8, 1.2) if seconds is None else seconds
        self._at = self._clock() + wait

    def listens_in(self, *, looking: bool) -> float:
        """Seconds until it should listen whatever poll says."""
        return self._wake.left(looking=looking)

    def interest(self) -> dict[int, int]:
        """What to poll for."""
        return self._wake.interest()

    def step(self, ready: Mapping[int, int], *, looking: bool = True) -> None:
        """Listen."""
        if self._wake.heard(ready, looking=looking):
            self.hint()

    def close(self) -> None:
        """Listen no more."""
        self._wake.close()
