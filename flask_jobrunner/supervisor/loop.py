"""The supervisor's one loop: it polls, and whatever is due happens in between.

It never waits for a database or a process. The jobs' processes are its children, in sessions of
their own; should it die, they go on by themselves.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.model.words import duration
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.command import child_environment
from flask_jobrunner.protocol.report import EndReport
from flask_jobrunner.repositories.dispatch import Wanted
from flask_jobrunner.repositories.supervisors import NewSupervisor
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.shim.deliver import poll

from . import told
from .bell import STOPS, Bell, Signals
from .children import Child, Starter
from .contact import Contact
from .crew import Crew
from .desk import Desk
from .dispatch import Dispatcher, Handed
from .drain import Drain
from .intake import Intake
from .log import Log
from .notify import Notifier
from .plan import Plan
from .record import Ending
from .reserve import Reserve
from .upkeep import Register, Upkeep
from .wake import Lookout, Silence, Wake
from .waker import Waker

LAST_RECORD_SECONDS = 5.0
"""How long the last ends may take into the database, before they are kept as files."""


class Supervisor:
    """`run` returns an exit code once a signal, or the end of a burst, has ended it."""

    def __init__(
        self,
        runtime: Runtime,
        plan: Plan,
        log: Log,
        *,
        wake: Wake | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.uuid = identity.uuid7()
        self._runtime, self._plan, self._log, self._clock = runtime, plan, log, clock
        config = runtime.config
        self._bell = Bell()
        self._signals = Signals(self._bell)
        self._notifier = Notifier(os.environ)
        self._drain = Drain(plan.drain_timeout, log, clock)
        self._rows = self._desk("row")
        self._register = Register(runtime, _row(runtime, plan, self.uuid))
        contact = Contact(log, clock)
        starter = Starter(runtime.command(), child_environment(os.environ), config.claim_window)
        self._reserve = Reserve(
            plan.standby,
            starter.stand_by,
            runtime.likeness,
            log,
            desk=self._desk("standby"),
            boot_seconds=config.claim_window,
            clock=clock,
        )
        self._crew = Crew(
            runtime,
            starter,
            self._reserve,
            contact,
            log,
            ring=self._bell.ring,
            desk=self._desk("record", limit=2),
            hear=self._hear,
            ended=self._ended,
            clock=clock,
        )
        wanted = Wanted(types=plan.types, revision=config.revision)
        self._intake = Intake(
            runtime,
            plan,
            Dispatcher(runtime, wanted, self.uuid),
            self._register,
            self._crew,
            contact,
            log,
            desk=self._desk("next"),
            lookout=Lookout(wake or self._waker(), config.idle_sleep, clock),
            clock=clock,
        )
        self._upkeep = Upkeep(
            runtime,
            self._register,
            self._crew,
            contact,
            log,
            obey=self._obey,
            desks=(self._rows, self._desk("sweep"), self._desk("prune")),
            clock=clock,
        )

    def run(self) -> int:
        """Work until told to stop. Raises when there is no database to begin with."""
        self._register.beat()
        self._signals.install()
        self._log.info(
            "ready",
            f"Process {os.getpid()} takes {self._plan.words(self._runtime)}.",
            supervisor=self.uuid,
            slots=self._plan.slots,
            types=list(self._plan.types),
            pid=os.getpid(),
        )
        self._notifier.tell("READY=1")
        try:
            while not self._is_over():
                self._round()
            return self._close()
        finally:
            self._signals.restore()
            self._bell.close()

    def _round(self) -> None:
        wanted = self._bell.interest() | self._crew.interest() | self._intake.interest()
        wanted |= self._reserve.interest()
        parts = (
            self._crew, self._intake, self._reserve, self._upkeep, self._drain, self._notifier
        )  # fmt: skip
        ready = poll(wanted, min(part.left for part in parts))
        self._bell.step(ready)
        self._heed_signals()
        self._crew.step(ready)
        self._drain.step(self._crew.running)
        self._intake.step(ready)
        self._reserve.step(ready, hold=self._crew.is_handing)
        self._upkeep.step()
        state = "draining" if self._drain.began or self._intake.drained else "working"
        self._notifier.step(f"{state}, {self._crew.size} of {self._plan.slots} slots used")

    def _is_over(self) -> bool:
        if self._crew.size:
            return False
        if self._drain.began:
            # What was reserved meanwhile is given back, unless that takes too long.
            over = not self._intake.is_busy and self._reserve.is_gone
            return over or self._drain.phase == "end"
        if not self._plan.burst or self._intake.is_busy or self._crew.unrecorded:
            return False
        return self._intake.found_nothing or self._intake.gives_up or self._intake.drained

    def _hear(self, child: Child, said: str) -> None:
        if said == "claimed":
            self._intake.claimed(child)
            if child.stood_by:
                self._reserve.answered()

    def _ended(self, handed: Handed, report: EndReport, end: Ending) -> None:
        self._intake.ended(handed, report, end)

    def _heed_signals(self) -> None:
        for number in self._signals.take():
            if not self._drain.began:
                self._stop_taking(signal.Signals(number).name)
            elif number in STOPS:
                # A closing terminal sends HUP more than once, and means it once.
                self._drain.hurry()

    def _stop_taking(self, why: str) -> None:
        self._drain.begin()
        self._intake.closed = True
        self._reserve.close()
        running = len(self._crew.running)
        hint = " Ctrl-C again hurries." if running and why == "SIGINT" else ""
        self._log.info(
            "stopping",
            f"Stopping ({why}): no more jobs are taken, {running} running; all have ended within "
            f"{duration(self._plan.drain_timeout)}.{hint}",
            running=running,
        )
        self._notifier.tell("STOPPING=1")
        self._rows.ask(self._register.stops, _ignore, _ignore)

    def _obey(self, draining: bool) -> None:  # noqa: FBT001 - it is the answer of a desk
        """Take no more jobs as long as somebody wants that; what runs goes on."""
        if draining != self._intake.drained and not self._drain.began:
            self._intake.drain(draining)
            self._reserve.rest(draining)
            told.drained(self._log, draining, len(self._crew.running))

    def _close(self) -> int:
        """Record the last ends, take the row away; neither for long."""
        give_up = self._clock() + LAST_RECORD_SECONDS
        while self._crew.unrecorded and self._clock() < give_up:
            self._bell.step(poll(self._bell.interest(), min(0.5, self._crew.left)))
            self._crew.step({})
        self._crew.keep_unrecorded()
        self._intake.close()
        self._reserve.end()
        self._rows.ask(self._register.leave, _ignore, _ignore)
        while (self._rows.open or self._reserve.is_burying) and self._clock() < give_up:
            self._bell.step(poll(self._bell.interest(), 0.5))
            self._rows.deliver()
            self._reserve.step({}, hold=True)
        code = ExitCode.FAILED if self._intake.gives_up else ExitCode.OK
        self._log.info("stopped", "Stopped.", exit_code=code)
        return code

    def _waker(self) -> Wake:
        if self._plan.burst:
            return Silence()  # it ends where it finds nothing
        return Waker(self._runtime, self._log, desk=self._desk("wake", limit=2), clock=self._clock)

    def _desk(self, name: str, limit: int = 1) -> Desk:
        around: Callable[[], AbstractContextManager[object]] = self._runtime.app.app_context
        return Desk(f"jobrunner-{name}", self._bell.ring, around=around, limit=limit)


def _ignore(_: object) -> None:
    """Nothing depends on it."""


def _row(runtime: Runtime, plan: Plan, uuid: str) -> NewSupervisor:
    return NewSupervisor(
        uuid=uuid,
        process=identity.this_process(runtime.config.instance),
        types=plan.types,
        slots=plan.slots,
        standby=plan.standby,
        revision=runtime.config.revision,
        version=plan.version,
    )
