"""All children of this supervisor, from their start to the record of their end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.protocol.report import EndReport
from flask_jobrunner.runtime import Runtime

from . import record
from .backoff import Backoff
from .children import Child, Hear, Starter
from .contact import Contact
from .desk import Desk
from .dispatch import Handed
from .log import Log
from .record import Ending
from .reserve import Reserve

Ended = Callable[[Handed, EndReport, Ending], None]
LAST_WORDS_AT_ONCE = 4


@dataclass(frozen=True)
class _End:
    """An end that is not in the database yet."""

    handed: Handed
    report: EndReport


class Crew:
    """Reaps its own children and no others. `ended` is told when an end is recorded."""

    def __init__(
        self,
        runtime: Runtime,
        starter: Starter,
        reserve: Reserve,
        contact: Contact,
        log: Log,
        *,
        ring: Callable[[], None],
        desk: Desk,
        hear: Hear,
        ended: Ended,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._starter = starter
        self._reserve = reserve
        self._contact = contact
        self._log = log
        self._hear = hear
        self._ended = ended
        self._clock = clock
        self._desk = desk
        self._burials = Desk("jobrunner-ends", ring, limit=LAST_WORDS_AT_ONCE)
        self._unrecorded: deque[_End] = deque()
        self._recording: list[_End] = []
        self._pause = Backoff(0.5, 5.0, clock)
        self._in_doubt = 0
        self.running: list[Child] = []

    @property
    def size(self) -> int:
        """The slots that are taken: a slot is free when all of its processes are gone."""
        return len(self.running) + self._burials.open

    @property
    def unrecorded(self) -> int:
        """Ends that are not in the database yet."""
        return len(self._unrecorded) + len(self._recording)

    @property
    def in_doubt(self) -> int:
        """Ends that may turn out to mean that no process can be started."""
        return self._in_doubt

    @property
    def untaken(self) -> int:
        """Processes that have not taken their job yet."""
        return sum(not child.claimed for child in self.running)

    def start(self, handed: Handed) -> None:
        """Give a job to a process that stands by, or start one for it. Raises `OSError`."""
        standby = self._reserve.take()
        if standby is None:
            child = self._starter.start(handed, self._hear)
        else:
            child = self._starter.hand(standby, handed, self._hear)
        self.running.append(child)
        fault_point("work.handed")

    @property
    def is_handing(self) -> bool:
        """Whether a process that stood by is about to take its job."""
        return any(child.stood_by and not child.claimed for child in self.running)

    def interest(self) -> dict[int, int]:
        """What to poll for."""
        wanted: dict[int, int] = {}
        for child in self.running:
            wanted |= child.interest()
        return wanted

    @property
    def left(self) -> float:
        """Seconds until something is due."""
        waits = [child.patience() for child in self.running]
        if self._unrecorded and self._desk.is_free:
            waits.append(self._pause.left)
        return min(waits, default=60.0)

    def step(self, ready: Mapping[int, int]) -> None:
        """Watch all of them; see to those that have ended."""
        for child in list(self.running):
            if self._has_ended(child, ready):
                self.running.remove(child)
                if not child.is_silent or child.asked or not self._replace(child):
                    self._bury(child)
        self._burials.deliver()
        self._desk.deliver()
        while self._unrecorded and self._desk.is_free and self._pause.left <= 0:
            self._record(self._unrecorded.popleft())

    def keep_unrecorded(self) -> None:
        """Put what the database does not take into the spool folder; twice does no harm."""
        for end in [*self._recording, *self._unrecorded]:
            if not record.keep(self._runtime, end.report):
                self._log.error("error", f"The end of job {end.handed.uuid} could not be kept.")
        self._unrecorded.clear()

    def _has_ended(self, child: Child, ready: Mapping[int, int]) -> bool:
        try:
            child.step(ready)
        except Exception as error:  # noqa: BLE001 - one child must not cost the others their parent
            text = f"Process {child.pid} cannot be watched, and is ended: {error!r}."
            self._log.error("error", text, job=child.handed.uuid)
            child.kill()
            return True
        return child.ended

    def _replace(self, child: Child) -> bool:
        """Start a process in the place of one that stood by and has not touched its job."""
        try:
            self.running.append(self._starter.start(child.handed, self._hear))
        except (OSError, ValueError):
            return False
        self._reserve.unanswered(child)
        return True

    def _bury(self, child: Child) -> None:
        def told(report: EndReport) -> None:
            fault_point("work.reaped")
            self._in_doubt += not report.claimed
            self._unrecorded.append(_End(child.handed, report))

        def failed(error: Exception) -> None:
            text = f"How process {child.pid} ended cannot be told: {error!r}. A sweep will see."
            self._log.error("error", text, job=child.handed.uuid)

        self._burials.ask(child.last_words, told, failed)

    def _record(self, end: _End) -> None:
        def done(ending: Ending) -> None:
            self._recording.remove(end)
            self._in_doubt -= not end.report.claimed
            self._pause.succeed()
            self._contact.made()
            self._ended(end.handed, end.report, ending)

        def failed(error: Exception) -> None:
            self._recording.remove(end)
            self._pause.fail()
            self._contact.lost(error)
            self._unrecorded.append(end)

        self._recording.append(end)
        self._desk.ask(lambda: record.record(self._runtime, end.handed, end.report), done, failed)
