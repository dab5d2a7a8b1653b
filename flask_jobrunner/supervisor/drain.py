"""Stopping: no more jobs, then time to finish, then a request, then an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

from . import told
from .children import Child
from .log import Log

Phase = Literal["work", "drain", "ask", "end"]
STOP_SECONDS = 10.0
"""At most so much of the drain time is for handlers that were asked to stop."""
_ASKED_SHARE = 0.6
_GRACE_SHARE = 0.2


class Drain:
    """The phases from the first signal on; all of them fit into `timeout` seconds.

    Running jobs go on for two thirds of it (all but ten seconds, if that is more), then they are
    asked to stop; what still runs shortly before the time is over is ended. Each further signal
    begins the next phase at once.
    """

    def __init__(
        self, timeout: float, log: Log, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._timeout = timeout
        self._log = log
        self._clock = clock
        self._stop = min(STOP_SECONDS, timeout / 3)
        self._grace = self._stop * _GRACE_SHARE
        self._ask_at: float | None = None
        self._end_at = 0.0
        self._dealt_with: Phase = "work"

    @property
    def began(self) -> bool:
        """Whether no more jobs are taken."""
        return self._ask_at is not None

    @property
    def phase(self) -> Phase:
        """What is to be done now."""
        if self._ask_at is None:
            return "work"
        now = self._clock()
        if now >= self._end_at:
            return "end"
        return "ask" if now >= self._ask_at else "drain"

    @property
    def left(self) -> float:
        """Seconds until the next phase."""
        at = {"drain": self._ask_at, "ask": self._end_at}.get(self.phase)
        return 60.0 if at is None else max(0.0, at - self._clock())

    def begin(self) -> None:
        """Stop taking jobs."""
        if self._ask_at is None:
            self._ask_at = self._clock() + self._timeout - self._stop
            self._end_at = self._ask_at + self._stop * _ASKED_SHARE

    def hurry(self) -> None:
        """Go on to the next phase; at the end, to KILL."""
        now, phase = self._clock(), self.phase
        if phase == "work":
            self.begin()
        elif phase == "drain":
            self._ask_at = now
            self._end_at = min(self._end_at, now + self._stop * _ASKED_SHARE)
        else:
            self._end_at, self._grace = now, 0.0
            self._dealt_with = "ask"

    def step(self, children: Sequence[Child]) -> None:
        """Do to the children what the phase asks for."""
        phase, before = self.phase, self._dealt_with
        self._dealt_with = phase
        if phase == "work":
            return
        for child in children:
            # What has not begun need not begin now: it waits for the next supervisor.
            if not child.asked and (phase != "drain" or not child.claimed):
                child.ask()
        if phase == before or not children:
            return
        if phase == "ask":
            running = len(children)
            self._log.info("asked", f"{running} running: asked to stop.", running=running)
        if phase == "end":
            for child in children:
                told.ending(self._log, child)
                child.end("shutdown", grace=self._grace)
