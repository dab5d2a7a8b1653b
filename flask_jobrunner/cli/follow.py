"""Following a job's log to its end, with every line, without ever disturbing the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from flask_jobrunner.model.records import LogLine, OwnedJob
from flask_jobrunner.runtime import Runtime

from .common import find, now_of

SLICE = 1000
PAUSES = (0.1, 1.0)
"""Seconds between two looks: after a line, and at most."""
OUTAGE = 30.0
"""Seconds for which the database may be away before the command gives up."""
LAST_WORDS_WITHIN = timedelta(seconds=3)
"""How long after the end the parent's report may bring lines that the job could not store."""


def lines_after(runtime: Runtime, job_id: int, seq: int) -> Iterator[LogLine]:
    """The lines that are there after `seq`, however many."""
    while lines := runtime.logs.after(job_id, seq, SLICE):
        yield from lines
        seq = lines[-1].seq


def newest_seq(runtime: Runtime, ref: int | str) -> int:
    """The number of the newest line there is; 0 without one, or without such a job."""
    job = runtime.jobs.get(ref)
    newest = runtime.logs.newest(job.id, 1) if job is not None else []
    return newest[-1].seq if newest else 0


def follow(
    runtime: Runtime,
    job_id: int,
    after: int,
    show: Callable[[LogLine], None],
    *,
    timeout: float,
) -> OwnedJob:
    """Show the lines after `after` as they come: the job, ended, or as it was at the time-out."""
    reader = _Reader(runtime, job_id, after, show)
    until, pause = time.monotonic() + timeout, PAUSES[0]
    answered = time.monotonic()
    while True:
        before, looked = reader.after, time.monotonic()
        try:
            seen, over = reader.look()
        except (DatabaseAway, LockBusy):
            # A restart of the database is no reason to give up on a job that goes on.
            if looked > answered + OUTAGE:
                raise
            time.sleep(PAUSES[1])
            continue
        answered, left = looked, until - time.monotonic()
        if over or left <= 0:
            return seen
        pause = PAUSES[0] if reader.after > before else min(pause * 1.5, PAUSES[1])
        time.sleep(min(pause, left))


@dataclass
class _Reader:
    """Remembers what was shown, whatever a look ends with."""

    runtime: Runtime
    job_id: int
    after: int
    show: Callable[[LogLine], None]

    def look(self) -> tuple[OwnedJob, bool]:
        """Show what is new: the job, and whether that was all."""
        # The row before the lines: what is over by now has all its lines.
        seen = find(self.runtime, self.job_id)
        over = seen.job.is_terminal and not _more_may_come(self.runtime, seen)
        for line in lines_after(self.runtime, self.job_id, self.after):
            self.show(line)
            self.after = line.seq
        return seen, over


def _more_may_come(runtime: Runtime, seen: OwnedJob) -> bool:
    """Whether the report on the ended process is still to be recorded."""
    job = seen.job
    if job.finished_at is None or now_of(runtime, seen) > job.finished_at + LAST_WORDS_WITHIN:
        return False
    last = runtime.attempts.of(job.id)[-1:]
    watched = bool(last) and last[0].attempt == job.attempt and last[0].parent.pid is not None
    return watched and not runtime.attempts.is_reported(job.id, job.attempt)
