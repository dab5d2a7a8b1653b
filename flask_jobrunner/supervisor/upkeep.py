"""What goes on beside the jobs: this supervisor's row, and the sweep."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from flask_jobrunner.model.records import Job
from flask_jobrunner.protocol import identity
from flask_jobrunner.recovery.retention import Ages, PruneResult, prune
from flask_jobrunner.recovery.sweep import Sweeper, SweepResult
from flask_jobrunner.repositories.supervisors import FORGOTTEN_AFTER, NewSupervisor
from flask_jobrunner.runtime import Runtime

from .contact import Contact
from .crew import Crew
from .desk import Desk
from .log import Log

SWEEP_EVERY = 5.0
"""Seconds between two sweeps; more where a sweep takes long."""
SWEEP_SHARE = 20
SWEEP_WATCH = 0.4
"""The share of a sweep's patience after which it looks again at a lease that may be lost."""
FORGET_EVERY = 60.0
PRUNE_EVERY = 600.0
PRUNE_SECONDS = 60.0
"""How long removing what is old may take at a time."""
LEAVE_SECONDS = 30.0
"""How long a process may stay after the end of its job."""
LEAVE_GRACE = 5.0


class Register:
    """The rows of supervisors, as this one keeps them. Called at a desk."""

    def __init__(self, runtime: Runtime, me: NewSupervisor) -> None:
        self._runtime = runtime
        self._me = me
        # Not in `_me`: the desk that finds this one outdated changes that.
        self._draining = self._stops = False

    def beat(self) -> bool:
        """Say that this one lives; whether it is asked to take no jobs.

        Makes the row anew where somebody removed it.
        """
        asked = self._runtime.supervisors.beat(self._me.uuid, draining=self._draining)
        if asked is None:
            self._runtime.supervisors.add(replace(self._me, draining=self._draining))
        elif self._stops and not asked:
            self.stops()  # whoever resumed it did not know
        else:
            self._draining = asked
        return self._draining

    def stops(self) -> None:
        """Say that it takes no more jobs, because it is about to end."""
        self._draining = self._stops = True
        self._runtime.drains.stops(self._me.uuid, self._me.process)

    def is_outdated(self) -> None:
        """Say that this one takes no jobs of a revision any more."""
        self._me = replace(self._me, revision=None)
        self._runtime.supervisors.forget_revision(self._me.uuid)

    def forget(self) -> None:
        """Remove the rows of those that are gone."""
        instance = self._runtime.config.instance
        gone = [
            one.uuid
            for one in self._runtime.supervisors.all()
            if one.uuid != self._me.uuid
            and (one.silent_for > FORGOTTEN_AFTER or identity.look(one.process, instance) == "dead")
        ]
        if gone:
            self._runtime.supervisors.remove(gone)

    def leave(self) -> None:
        """Remove this one's row."""
        self._runtime.supervisors.remove([self._me.uuid])


@dataclass
class _Timer:
    """Something that is done again and again."""

    work: Callable[[], Any]
    every: float
    at: float

    def is_due(self, now: float) -> bool:
        """Whether it is time; then the next time is set."""
        if now < self.at:
            return False
        self.at = now + self.every * random.uniform(0.8, 1.2)
        return True


class Upkeep:
    """Asks for what is due; nothing here waits."""

    def __init__(
        self,
        runtime: Runtime,
        register: Register,
        crew: Crew,
        contact: Contact,
        log: Log,
        *,
        obey: Callable[[bool], None],
        desks: tuple[Desk, Desk, Desk],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._crew = crew
        self._contact = contact
        self._log = log
        self._obey = obey
        self._clock = clock
        self._sweeper = Sweeper(runtime)
        self._sweep_from = 0.0
        self._rows, self._sweeps, self._prunes = desks
        now, beat = clock(), runtime.config.heartbeat
        self._beat = _Timer(register.beat, beat, now + beat)
        self._forget = _Timer(register.forget, FORGET_EVERY, now)
        self._sweep = _Timer(self._sweeper.sweep, SWEEP_EVERY, now)
        config = runtime.config
        wanted = (config.job_retention, config.log_retention, config.files_dir)
        keeps_all = all(one is None for one in wanted)
        self._prune = _Timer(self._remove_old, PRUNE_EVERY, math.inf if keeps_all else now + beat)
        self._overdue = _Timer(lambda: None, LEAVE_SECONDS / 3, now + LEAVE_SECONDS)

    @property
    def left(self) -> float:
        """Seconds until something is due."""
        at = [self._beat.at, self._forget.at, self._overdue.at] if self._rows.is_free else []
        at += [self._sweep.at] if self._sweeps.is_free else []
        at += [self._prune.at] if self._prunes.is_free else []
        return max(0.0, min(at, default=self._clock() + 60.0) - self._clock())

    def step(self) -> None:
        """Deal with what was done, and ask for what is due."""
        self._rows.deliver()
        self._sweeps.deliver()
        self._prunes.deliver()
        for timer, then in ((self._beat, self._beaten), (self._forget, self._worked)):
            if self._rows.is_free and timer.is_due(self._clock()):
                self._rows.ask(timer.work, then, self._contact.lost)
        if self._rows.is_free and self._overdue.is_due(self._clock()):
            self._look_for_overdue()
        # Ends of our own come first: a sweep would find their processes gone and know less.
        due = self._sweeps.is_free and self._sweep.is_due(self._clock())
        if due and not self._crew.unrecorded:
            self._sweep_from = self._clock()
            self._sweeps.ask(self._sweeper.sweep, self._swept, self._contact.lost)
        if self._prunes.is_free and self._prune.is_due(self._clock()):
            self._prunes.ask(self._remove_old, self._pruned, self._contact.lost)

    def _beaten(self, draining: bool) -> None:  # noqa: FBT001 - it is the answer of a desk
        self._contact.made()
        self._obey(draining)

    def _worked(self, _: object) -> None:
        self._contact.made()

    def _swept(self, result: SweepResult) -> None:
        self._contact.made()
        took = self._clock() - self._sweep_from
        self._sweep.at = max(self._sweep.at, self._clock() + took * SWEEP_SHARE)
        if self._sweeper.has_candidates:
            # Who looks away for longer than its patience has watched nothing, and begins anew.
            soon = self._clock() + self._sweeper.patience * SWEEP_WATCH
            self._sweep.at = min(self._sweep.at, soon)
        for uuid, status in result.moved.items():
            what = "waits to run again" if status == "queued" else f"is {status}"
            self._log.info("swept", f"Job {uuid} {what}: found by the sweep.", job=uuid)

    def _remove_old(self) -> PruneResult:
        config = self._runtime.config
        ages = Ages(jobs=config.job_retention, lines=config.log_retention)
        return prune(self._runtime, ages, seconds=PRUNE_SECONDS)

    def _pruned(self, result: PruneResult) -> None:
        self._contact.made()
        files = result.files + result.leftovers
        if result.jobs or result.lines or files:
            text = f"Removed what is old: {result.jobs:,} jobs, {result.lines:,} lines"
            text += f", {files:,} files." if files else "."
            self._log.info("pruned", text, jobs=result.jobs, lines=result.lines, files=files)

    def _look_for_overdue(self) -> None:
        """Find our own processes whose job is long over: a slot must not be held for ever."""
        running = {child.handed.uuid: child for child in self._crew.running if child.claimed}

        def found(jobs: dict[str, Job]) -> None:
            now = datetime.now(UTC)
            for uuid, child in running.items():
                over = jobs[uuid].finished_at if uuid in jobs else None
                if over is not None and now - over > timedelta(seconds=LEAVE_SECONDS):
                    text = f"Job {uuid} is over, and its process {child.pid} stays: it is ended."
                    self._log.warning("ending", text, job=uuid, pid=child.pid)
                    child.end("overdue", grace=LEAVE_GRACE)

        if running:
            uuids = list(running)
            self._rows.ask(lambda: self._runtime.jobs.get_many(uuids), found, self._contact.lost)
