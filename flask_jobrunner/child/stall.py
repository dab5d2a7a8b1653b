"""Whether the handler shows signs of life: output, progress, steps, a heartbeat of its own.

Apart from the lease, which a thread renews also beside a handler that hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from flask_jobrunner.model.records import NewLine
from flask_jobrunner.model.statuses import StopReason
from flask_jobrunner.model.words import duration

from .steady import Clock

BLIND = 1.0
"""A gap between two looks after which this process itself may have stood still: output that came
meanwhile gets as long to be seen."""


class Stall:
    """When silence begins to count as a stall, and when it is over.

    `output` answers how many bytes were printed so far, and whether some still wait to be read.
    """

    def __init__(self, output: Callable[[], tuple[int, bool]]) -> None:
        self._output = output
        self._budget: float | None = None
        self._signs = 0
        self._seen = (0, 0)
        self._since = self._looked = self._blind_until = 0.0
        self._stalled = False

    def sign(self) -> None:
        """The handler did something that shows it goes on. Cheap, from any thread."""
        self._signs += 1

    def arm(self, budget: float | None, now: float) -> None:
        """The handler starts."""
        self._since = self._looked = now
        self._budget = budget

    def close(self) -> None:
        """The handler has ended."""
        self._budget = None

    def silent_for(self, now: float) -> float:
        """Seconds since the last sign."""
        return now - self._since

    def look(self, now: float) -> Literal["stall", "resumed"] | None:
        """What has changed since the last look; each stall is told once."""
        if self._budget is None:
            return None
        if now - self._looked > BLIND:
            self._blind_until = now + BLIND
        self._looked = now
        if self._has_moved(now):
            was, self._stalled = self._stalled, False
            return "resumed" if was else None
        if self._stalled or now < self._blind_until or self.silent_for(now) < self._budget:
            return None
        self._stalled = True
        return "stall"

    def _has_moved(self, now: float) -> bool:
        printed, waits = self._output()
        seen = (self._signs, printed)
        # What waits to be read is held up by us, not by the handler.
        if seen == self._seen and not waits:
            return False
        self._seen, self._since = seen, now
        return True


class Noted(Protocol):
    """What is asked of the lease."""

    @property
    def asked(self) -> StopReason | None: ...

    def ask(self, reason: StopReason) -> None: ...

    def note(self, action: str, *, evidence: dict[str, Any]) -> None: ...


class StallGuard:
    """What follows from a stall: a line and an event, and with `stops` the end of the job."""

    def __init__(
        self,
        stall: Stall,
        lease: Noted,
        *,
        stops: bool,
        clock: Clock,
        add_line: Callable[[NewLine], object],
    ) -> None:
        self._stall, self._lease, self._stops = stall, lease, stops
        self._clock, self._add_line = clock, add_line

    def arm(self, budget: float | None, now: float) -> None:
        """The handler starts."""
        self._stall.arm(budget, now)

    def close(self) -> None:
        """The handler has ended."""
        self._stall.close()

    def look(self, now: float) -> Literal["show", "stop"] | None:
        """What to do about a stall that begins now."""
        if self._lease.asked not in (None, "shutdown"):
            return None  # it is to end already, and has the time that this leaves it
        silent = self._stall.silent_for(now)
        change = self._stall.look(now)
        if change == "resumed":
            self._say("info", f"The handler goes on, after {duration(silent)} of silence.")
            self._lease.note("resumed", evidence={"silent": round(silent, 1)})
        if change != "stall":
            return None
        text = f"No progress and no output for {duration(silent)}: the stall budget is over"
        self._say("warning", f"{text}, and the job is stopped." if self._stops else f"{text}.")
        if self._stops:
            self._lease.ask("stall")
            return "stop"
        self._lease.note("stall", evidence={"silent": round(silent, 1)})
        return "show"

    def _say(self, level: str, text: str) -> None:
        self._add_line(NewLine(text, level, at=self._clock.now()))
