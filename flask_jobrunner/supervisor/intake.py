"""Taking jobs: when there is a slot, a database, and processes that can be started."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from flask_jobrunner.model.statuses import Reason
from flask_jobrunner.model.words import duration
from flask_jobrunner.protocol.report import EndReport
from flask_jobrunner.runtime import Runtime

from . import told
from .backoff import Backoff
from .children import Child
from .contact import Contact
from .crew import Crew
from .desk import Desk
from .dispatch import Dispatcher, Handed
from .log import Log
from .plan import Plan
from .record import Ending, give_back
from .upkeep import Register
from .wake import Lookout

FULL_PAUSE = 1.0
"""Seconds until orphans that take up all slots are counted again."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
BURST_GIVES_UP_AFTER = 3


class Intake:
    """Looks for the next job and starts a process for it.

    While processes cannot be started, or end before they take their job, the whole supervisor
    pauses: the queue is not used up by a deploy that does not work.
    """

    def __init__(
        self,
        runtime: Runtime,
        plan: Plan,
        dispatcher: Dispatcher,
        register: Register,
        crew: Crew,
        contact: Contact,
        log: Log,
        *,
        desk: Desk,
        lookout: Lookout,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._plan = plan
        self._dispatcher = dispatcher
        self._register = register
        self._crew = crew
        self._contact = contact
        self._log = log
        self._desk = desk
        self._lookout = lookout
        self._boots = Backoff(FIRST_PAUSE, LONGEST_PAUSE, clock)
        self._told_words = ""
        """What was last said of them; a traceback is not repeated with every try."""
        self.closed = False
        """Whether no more jobs are taken, ever."""
        self.drained = False
        """Whether none are taken until that is taken back."""
        self.found_nothing = False
        """Whether the last look found nothing, and nothing has happened since."""

    @property
    def is_busy(self) -> bool:
        """Whether a job may just be reserved, or be given back."""
        return self._desk.open > 0

    @property
    def gives_up(self) -> bool:
        """Whether it is time for a burst to end without success."""
        return self._plan.burst and self._boots.failures >= BURST_GIVES_UP_AFTER

    @property
    def left(self) -> float:
        """Seconds until something is due."""
        looking = self._has_place()
        pause = self._pause() if looking else 60.0
        return min(pause, self._lookout.listens_in(looking=looking))

    def interest(self) -> dict[int, int]:
        """What to poll for."""
        return self._lookout.interest()

    def step(self, ready: Mapping[int, int]) -> None:
        """Look, if it is time and there is a place."""
        self._desk.deliver()
        self._lookout.step(ready, looking=self._has_place())
        if not self._has_place() or self._pause() > 0:
            return
        free = self._plan.slots - self._crew.size
        self._lookout.rest()
        self._desk.ask(lambda: self._dispatcher.next(free), self._found, self._not_found)

    def drain(self, drained: bool) -> None:  # noqa: FBT001 - it is what is asked for
        """Take no more jobs; or take them again, beginning now."""
        self.drained = drained
        self._lookout.hint()

    def close(self) -> None:
        """Listen no more."""
        self._lookout.close()

    def claimed(self, child: Child) -> None:
        """A process has taken its job: processes can."""
        if self._boots.succeed():
            self._told_words = ""
            self._log.info("recovered", "Processes can take jobs again.")
        told.started(self._log, child)
        self._lookout.hint()

    def ended(self, handed: Handed, report: EndReport, end: Ending) -> None:
        """The end of a process is recorded."""
        self._lookout.hint()
        self.found_nothing = False
        if end.taken:
            told.ended(self._log, handed, report, end)
            return
        if end.status != "queued":
            told.not_taken(self._log, handed, report, end)
        if not end.given_back or self.closed:
            return
        if report.refused == Reason.REVISION_MISMATCH:
            self._outdated(handed)
        else:
            self._failed(told.why_not_taken(report), told.last_words(end))

    def _has_place(self) -> bool:
        if self.closed or self.drained or not self._desk.is_free or self._crew.in_doubt:
            return False
        if self._boots.failures and self._crew.untaken:
            # Until a process has taken a job again, one at a time has to show that they can.
            return False
        return self._crew.size < self._plan.slots

    def _pause(self) -> float:
        return max(self._lookout.left, self._boots.left, self._contact.left)

    def _found(self, found: Handed | str) -> None:
        self._contact.made()
        self.found_nothing = found == "nothing"
        if isinstance(found, Handed):
            self._lookout.hint()
            self._start(found)
        elif found == "full":
            self._lookout.rest(FULL_PAUSE)

    def _not_found(self, error: Exception) -> None:
        self._contact.lost(error)
        self._lookout.hint()  # the pause is the contact's

    def _start(self, handed: Handed) -> None:
        if self.closed or self.drained:
            self._return(handed)
            return
        try:
            self._crew.start(handed)
        except (OSError, ValueError) as error:
            self._return(handed)
            self._failed(f"No process can be started: {error}.")

    def _return(self, handed: Handed) -> None:
        """Give back what no process was started for; should that fail, its time runs out."""
        self._desk.ask(lambda: give_back(self._runtime, handed), _ignore, self._contact.lost)

    def _outdated(self, handed: Handed) -> None:
        """Our processes run other code than we do: what is made for ours waits for others."""
        if not self._dispatcher.take_unpinned_only():
            return
        told.outdated(self._log, handed)
        self._desk.ask(self._register.is_outdated, _ignore, self._contact.lost)

    def _failed(self, why: str, words: str = "") -> None:
        pause = self._boots.fail()
        if pause is None:
            return
        text = f"{why} The jobs stay in the queue; the next try is in {duration(pause)}."
        if words and words == self._told_words:
            text += " Its last words are the same as before."
        elif words:
            text += f" Its last words:\n{words}"
        self._told_words = words
        self._log.error("backing_off", text, pause=round(pause, 1))


def _ignore(_: object) -> None:
    """Nothing is left to do."""
