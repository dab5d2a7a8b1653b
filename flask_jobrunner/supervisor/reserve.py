"""The processes that stand by: as many as were asked for, each for one job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from flask_jobrunner.protocol.messages import STANDBY_MAX_AGE
from flask_jobrunner.protocol.report import EndReport

from .backoff import Backoff
from .children import Child
from .desk import Desk
from .log import Log
from .standby import Standby

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
CLOSE_SECONDS = 2.0
"""How long those that wait may take to end by themselves."""
_LAST_WORDS = 2000


class Reserve:
    """Keeps `number` processes warm, and never makes a job wait for one.

    `start` starts one, `likeness` tells what it must have been built from, `boot_seconds` is how
    long it may take to be warm. One is built at a time: jobs need the machine as well.
    """

    def __init__(
        self,
        number: int,
        start: Callable[[], Standby],
        likeness: Callable[[], str],
        log: Log,
        *,
        desk: Desk,
        boot_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._number = number
        self._start = start
        self._likeness = likeness
        self._log = log
        self._desk = desk
        self._boot_seconds = boot_seconds
        self._clock = clock
        self._pause = Backoff(FIRST_PAUSE, LONGEST_PAUSE, clock)
        self._waiting: list[Standby] = []
        self._told = ""
        """Why the last one was discarded; said again only when it is something else."""
        self._closed_at: float | None = None
        self._held = False
        """Whether the next one waits for something that wakes the loop by itself."""
        self._resting = False

    @property
    def is_gone(self) -> bool:
        """Whether nobody stands by, or it is time to end those who still do."""
        if self._closed_at is None or not self._waiting:
            return not self._waiting
        return self._clock() - self._closed_at >= CLOSE_SECONDS

    @property
    def left(self) -> float:
        """Seconds until something is due."""
        now, waits = self._clock(), [one.patience for one in self._waiting]
        if self._closed_at is not None:
            waits += [max(0.0, self._closed_at + CLOSE_SECONDS - now)] if self._waiting else []
            return min(waits, default=60.0)
        waits += [max(0.0, one.began + self._life(one) - now) for one in self._waiting]
        if self._is_missing and not self._held:
            waits.append(self._pause.left)
        return min(waits, default=60.0)

    def interest(self) -> dict[int, int]:
        """What to poll for."""
        wanted: dict[int, int] = {}
        for one in self._waiting:
            wanted |= one.interest()
        return wanted

    def take(self) -> Standby | None:
        """One that can be given a job now, or None; those that cannot are discarded."""
        for one in [one for one in self._waiting if one.is_warm]:
            self._waiting.remove(one)
            why = self._why_not(one)
            if why is None:
                return one
            self._discard(one, why)
        return None

    def step(self, ready: Mapping[int, int], *, hold: bool) -> None:
        """Look after those that wait; start one that is missing, unless it is to `hold` on."""
        self._held = hold
        self._desk.deliver()
        if self._closed_at is not None and self.is_gone:
            self.end()  # jobs may go on for long, and the loop is not to turn for these meanwhile
        for one in list(self._waiting):
            was_warm = one.is_warm
            one.step(ready)
            if one.is_warm and not was_warm:
                self._log.detail("standing_by", f"Process {one.pid} stands by.", pid=one.pid)
            self._look(one)
        if self._is_missing and not hold and self._closed_at is None and self._pause.left <= 0:
            try:
                self._waiting.append(self._start())
            except (OSError, ValueError) as error:
                self._failed(f"No process can be started to stand by: {error}.", "")

    def rest(self, resting: bool) -> None:  # noqa: FBT001 - it is what is asked for
        """Keep nobody ready as long as no jobs are taken: each has the memory of an application,
        and is built anew when it is old."""
        self._resting = resting
        if resting:
            self.end()

    def answered(self) -> None:
        """One has taken what it was given: they can."""
        self._pause.succeed()
        self._told = ""

    def unanswered(self, child: Child) -> None:
        """One was given a job and did not take it, which another process does now."""

        def told(report: EndReport) -> None:
            words = report.output()[1].decode("utf-8", "replace").strip()
            self._failed(f"Process {child.pid} stood by and did not take its job.", words)

        self._desk.ask(child.last_words, told, self._unburied)

    def close(self) -> None:
        """Let them end; those that are not warm yet have nothing to end in order."""
        if self._closed_at is not None:
            return
        self._closed_at = self._clock()
        for one in list(self._waiting):
            if one.is_warm:
                one.hang_up()
            else:
                self._waiting.remove(one)
                self._desk.ask(one.bury, _ignore, self._unburied)

    def end(self) -> None:
        """End those that have not ended by themselves."""
        while self._waiting:
            self._desk.ask(self._waiting.pop().bury, _ignore, self._unburied)

    @property
    def is_burying(self) -> bool:
        """Whether some have yet to be waited for."""
        return self._desk.open > 0

    @property
    def _is_missing(self) -> bool:
        wanted = 0 if self._resting else self._number
        return len(self._waiting) < wanted and not self._is_building

    @property
    def _is_building(self) -> bool:
        return any(not one.is_warm for one in self._waiting)

    def _life(self, one: Standby) -> float:
        return STANDBY_MAX_AGE if one.is_warm else self._boot_seconds

    def _look(self, one: Standby) -> None:
        """Discard it where it is of no use any more."""
        why: str | None = None
        if one.has_ended() or (one.is_deaf and self._closed_at is None):
            # Its pipes close a moment before it can be waited for.
            why = f"Process {one.pid} stood by, and ended or cannot be heard."
        elif self._closed_at is not None:
            return
        elif self._clock() - one.began >= self._life(one):
            why = "" if one.is_warm else f"Process {one.pid} was not built in time to stand by."
        if why is not None:
            self._waiting.remove(one)
            self._discard(one, why)

    def _why_not(self, one: Standby) -> str | None:
        if self._clock() - one.began >= STANDBY_MAX_AGE:
            return ""
        if one.has_ended() or not one.can_answer():
            return f"Process {one.pid} stood by and cannot answer."
        if one.match != self._likeness():
            return f"Process {one.pid} was built from another application or other settings."
        return None

    def _discard(self, one: Standby, why: str) -> None:
        """End it. `why` empty: its time was over, and that is no failure."""
        if not why or self._closed_at is not None:
            self._desk.ask(one.bury, _ignore, self._unburied)
        else:
            # Before it is buried, which takes a while: the next one must not come at once.
            self._pause.fail()
            self._desk.ask(one.bury, lambda words: self._tell(why, words), self._unburied)

    def _failed(self, why: str, words: str) -> None:
        self._pause.fail()
        self._tell(why, words)

    def _tell(self, why: str, words: str) -> None:
        said = words[-_LAST_WORDS:]
        if self._told == (said or why):
            return
        self._told = said or why
        text = f"{why} Jobs begin in new processes meanwhile."
        self._log.warning("standby_discarded", text + (f" Its last words:\n{said}" if said else ""))

    def _unburied(self, error: Exception) -> None:
        self._log.error("error", f"How a process ended cannot be told: {error!r}.")


def _ignore(_: object) -> None:
    """Nothing depends on it."""
