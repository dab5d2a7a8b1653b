"""Whether the job should stop by now, and whether its threads still live.

Touches no database: a watchdog must not wait for what it watches.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.shim.evidence import group_members

from .lease import FINISH_FOR, Lease
from .leave import last_word
from .parent import Parent
from .stacks import Stacks
from .stall import StallGuard
from .steady import Alarm, Clock, Worker

LOOK_EVERY = 0.1
STOP_GRACE = 10.0
"""Seconds from the end of the run budget to the end of the process, where no CANCEL_GRACE is
set."""
FORCE_GRACE = 5.0
"""Seconds that a forced stop leaves the handler."""
FENCED_GRACE = 5.0
"""Seconds for a handler to end by itself once the job is known to be somebody else's."""
_PARENT_TIME = 10.0
END_TIME = FINISH_FOR + 60.0
"""Seconds for which the parent leaves a process alone whose handler has ended in its time: the
last lines are read, and the end is written."""
SAY_BEFORE = 1.0
"""Seconds before it kills itself, a process has this written: nobody else may know."""


class Revivable(Protocol):
    """A worker thread that can be started again."""

    def revive(self) -> bool: ...


class Watchdog:
    """`cancel_grace` None leaves a cancelled handler all the time it takes."""

    def __init__(
        self,
        lease: Lease,
        parent: Parent,
        *,
        clock: Clock,
        workers: Sequence[Revivable],
        stall: StallGuard | None = None,
        stacks: Stacks | None = None,
    ) -> None:
        self._lease, self._parent, self._clock = lease, parent, clock
        self._workers = workers
        self._stall, self._stacks = stall, stacks
        self._thread = Worker(self._loop)
        self._pause = Alarm()
        self._ended = False
        self._budget_over: float | None = None
        self._cancel_grace: float | None = None
        self._told: set[str] = set()
        self._end_at: float | None = None
        self._said_end = False
        self._fenced_until: float | None = None
        self.term_came = False
        """Set by the signal handler, which may do no more than that."""
        self.revived = 0

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def arm(
        self, budget: float | None, cancel_grace: float | None, stall_budget: float | None = None
    ) -> None:
        """The handler starts now. Tells the parent, which enforces what this process cannot."""
        self._cancel_grace = cancel_grace
        if budget is not None:
            self._budget_over = self._clock.monotonic() + budget
        if self._stall is not None:
            self._stall.arm(stall_budget, self._clock.monotonic())
        self._parent.tell("started", budget=budget, grace=self._grace())

    def close(self) -> None:
        """Stop looking: the handler has ended. The parent leaves it the time to say so."""
        self._budget_over = self._end_at = None
        self._parent.tell("returned", seconds=END_TIME)
        if self._stall is not None:
            self._stall.close()
        self._ended = True

    def _loop(self) -> None:
        while True:
            self._pause.wait(LOOK_EVERY)
            self.revived += sum(worker.revive() for worker in self._workers)
            if not self._ended:
                self._look()

    def _look(self) -> None:
        now = self._clock.monotonic()
        if self._stacks is not None:
            self._stacks.store(now)
        if self._lease.fenced:
            self._leave_to_others(now)
            return
        if self.term_came:
            self.term_came = False
            self._lease.ask("shutdown")
        self._look_at_budgets(now)
        if self._lease.asked == "force":
            self._stop("force", min(FORCE_GRACE, self._grace()), now)
        if self._lease.asked == "cancel" and self._cancel_grace is not None:
            self._stop("cancel", self._cancel_grace, now)
        if self._end_at is not None:
            self._end_when_due(self._end_at - now)

    def _look_at_budgets(self, now: float) -> None:
        if self._budget_over is not None and now >= self._budget_over:
            self._budget_over = None
            self._write_stack()
            self._lease.ask("run_timeout")
            self._stop("run_timeout", self._grace(), now)
        stalled = self._stall.look(now) if self._stall is not None else None
        if stalled is not None:
            self._write_stack()
        if stalled == "stop":
            self._stop("stall", self._grace(), now)

    def _write_stack(self) -> None:
        if self._stacks is not None:
            self._stacks.ask_once()

    def _leave_to_others(self, now: float) -> None:
        """A worker that lost its job stops: what it goes on to do, another one may do as well."""
        if self._fenced_until is None:
            self._fenced_until = now + FENCED_GRACE
            self._parent.tell("stopping", reason="fenced", grace=FENCED_GRACE + _PARENT_TIME)
            last_word("This job is not this process's any more: it ends.")
        elif now >= self._fenced_until:
            end_without_the_job()

    def _stop(self, reason: str, grace: float, now: float) -> None:
        if reason in self._told:
            return
        self._told.add(reason)
        # A parent that hears this ends the job when the grace is over; this is for having none.
        heard = self._parent.tell("stopping", reason=reason, grace=grace)
        end_at = now + grace + (_PARENT_TIME if heard else 0.0)
        self._end_at = end_at if self._end_at is None else min(end_at, self._end_at)

    def _end_when_due(self, left: float) -> None:
        if left <= SAY_BEFORE and not self._said_end:
            self._said_end = True
            self._lease.note("kill", reason="watchdog")
        if left <= 0:
            end_own_group()

    def _grace(self) -> float:
        return STOP_GRACE if self._cancel_grace is None else self._cancel_grace


def end_own_group() -> None:
    """Kill this process, and with it its group where that is its own."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def end_without_the_job() -> None:
    """End what else is in this process's session, then this process, and say so by its code."""
    for pid in group_members(os.getpid()):
        if pid != os.getpid():
            # Looked up a moment ago in our own session, whose leader lives: it is us.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    os._exit(ExitCode.REFUSED)


def heed_term(watchdog: Watchdog) -> None:
    """Let the first TERM ask the handler to stop; a second one has its default effect."""

    def on_term(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        watchdog.term_came = True

    signal.signal(signal.SIGTERM, on_term)

    def in_a_fork() -> None:
        # A pool ends its workers with TERM: the job's own answer to it would let them live on.
        if signal.getsignal(signal.SIGTERM) is on_term:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=in_a_fork)
