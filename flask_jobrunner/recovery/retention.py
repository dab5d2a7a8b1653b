"""Pruning: jobs, lines, events that are older than anybody wants, removed beside running jobs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from flask_jobrunner.files.leftovers import find_leftovers
from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.repositories.retention import LINES_AT_ONCE, EndedJob, What
from flask_jobrunner.runtime import Runtime

from . import old_files, spool

T = TypeVar("T")
Old = TypeVar("Old")
PAGE = 100
SHARE = 1.0
"""Pauses are as long as the work between them: others have to get at the database."""


@dataclass(frozen=True, kw_only=True)
class Ages:
    """Seconds since its end from which on something is old; None: never."""

    jobs: float | None = None
    lines: float | None = None
    files: float | None = None
    """Since it was made; files that are past their own expiry go in any case."""


@dataclass(kw_only=True)
class PruneResult:
    """What was removed, or with a dry run would be."""

    jobs: int = 0
    lines: int = 0
    """Of jobs that stay, and of those that do not."""
    files: int = 0
    """Of jobs that stay."""
    leftovers: int = 0
    """Files that nobody finished, and that no row names."""
    reports: int = 0
    """In the spool folder: they could not be read, and were put aside."""
    events: int = 0
    """Of supervisors that are gone: who drained them, and when they ended."""
    kept: list[str] = field(default_factory=list)
    """Jobs that other tables refer to, or that changed meanwhile: uuids."""
    finished: bool = True
    """Whether nothing that is old enough was left for want of time."""


def prune(
    runtime: Runtime,
    ages: Ages,
    *,
    seconds: float | None = None,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> PruneResult:
    """Remove old jobs with all that is theirs, and the old lines of those that stay.

    `seconds` is how long it may take.

    Lost jobs stay: they hold their locks until somebody has decided about them.
    """
    pruner = _Pruner(runtime, seconds, pause, clock)
    if ages.jobs is not None:
        pruner.jobs(ages.jobs)
        pruner.spooled(ages.jobs)
        pruner.events(ages.jobs)
    if ages.lines is not None:
        pruner.lines(ages.lines)
    pruner.files(ages.files)
    pruner.leftovers()
    return pruner.result


def dry_run(runtime: Runtime, ages: Ages) -> PruneResult:
    """What `prune` would remove now; nothing is changed."""
    result, retention = PruneResult(), runtime.retention
    if ages.jobs is not None:
        amount = retention.amount("jobs", ages.jobs)
        result.jobs, result.lines = amount.jobs, amount.lines
        result.reports = len(list(_unreadable(runtime, ages.jobs)))
        result.events = runtime.drains.amount(ages.jobs)
    # Lines of jobs that go are counted with them.
    if ages.lines is not None and (ages.jobs is None or ages.lines < ages.jobs):
        result.lines = retention.amount("lines", ages.lines).lines
    result.files = runtime.old_files.amount(ages.files)
    result.leftovers = sum(len(found) for _, found in find_leftovers(runtime))
    return result


def wanted_ages(runtime: Runtime, given: Ages) -> Ages:
    """The ages that were given, else those of the settings. Raises `ConfigError` for none."""
    config = runtime.config
    found = Ages(
        jobs=config.job_retention if given.jobs is None else given.jobs,
        lines=config.log_retention if given.lines is None else given.lines,
        files=given.files,
    )
    # Files know their own expiry, so where there may be some there is something to look at.
    if found == Ages() and config.files_dir is None:
        raise ConfigError(
            "Nothing says what is old: set JOBRUNNER_JOB_RETENTION or JOBRUNNER_LOG_RETENTION, in "
            "seconds, or say --jobs, --lines or --files, as in --jobs 90d."
        )
    return found


class _Pruner:
    def __init__(
        self,
        runtime: Runtime,
        seconds: float | None,
        pause: Callable[[float], None],
        clock: Callable[[], float],
    ) -> None:
        self._runtime = runtime
        self._pause = pause
        self._clock = clock
        self._until = None if seconds is None else clock() + seconds
        self.result = PruneResult()

    def jobs(self, age: float) -> None:
        """Jobs with all that belongs to them, the lines first."""
        for job in self._each("jobs", age):
            if self._all_lines(job) and self._timed(self._runtime.retention.remove_job, job):
                old_files.drop(self._runtime, job.uuid)
                self.result.jobs += 1
            else:
                self.result.kept.append(job.uuid)

    def lines(self, age: float) -> None:
        """The lines of jobs that stay."""
        for job in self._each("lines", age):
            self._all_lines(job)

    def files(self, age: float | None) -> None:
        """Files of jobs that stay."""
        for old in old_files.expired(self._runtime, age):
            if not self._has_time():
                return
            if self._timed(partial(old_files.expire, self._runtime), old):
                self.result.files += 1

    def leftovers(self) -> None:
        """Files that nobody finished."""
        for count in old_files.clear_leftovers(
            self._runtime, only_a_part=self._until is not None, goes_on=self._has_time
        ):
            self.result.leftovers += count

    def spooled(self, age: float) -> None:
        """What was put aside in the spool folder."""
        for path in _unreadable(self._runtime, age):
            with contextlib.suppress(OSError):
                path.unlink()
                self.result.reports += 1

    def events(self, age: float) -> None:
        """What supervisors that are gone were told."""
        left = self._runtime.drains.amount(age)
        while left > 0 and self._has_time():
            gone = self._timed(self._runtime.drains.forget, age)
            self.result.events += gone
            left = left - gone if gone else 0

    def _each(self, what: What, age: float) -> Iterator[EndedJob]:
        last: EndedJob | None = None
        while page := self._runtime.retention.find(what, age, after=last, limit=PAGE):
            for job in page:
                if not self._has_time():
                    return
                yield job
            last = page[-1]

    def _all_lines(self, job: EndedJob) -> bool:
        """Remove the job's lines, some at a time. False: the job is not what it was."""
        while True:
            removed = self._timed(self._runtime.retention.remove_lines, job)
            if removed is None:
                return False
            self.result.lines += removed
            if removed < LINES_AT_ONCE:
                return True

    def _has_time(self) -> bool:
        left = self._until is None or self._clock() < self._until
        self.result.finished = self.result.finished and left
        return left

    def _timed(self, work: Callable[[Old], T], old: Old) -> T:
        before = self._clock()
        done = work(old)
        self._pause((self._clock() - before) * SHARE)
        return done


def _unreadable(runtime: Runtime, age: float) -> Iterator[Path]:
    oldest = time.time() - age
    for path in spool.put_aside(runtime):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                yield path
