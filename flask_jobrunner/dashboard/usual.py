"""How long jobs of a type take, from those that succeeded lately."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from flask_jobrunner.model.records import Job
from flask_jobrunner.model.runs import usual
from flask_jobrunner.repositories.listing import JobFilter
from flask_jobrunner.runtime import Runtime

from .format import moment, whole_duration

RUNS = 50
LOOKED_AT = 10_000
"""Jobs, the newest ones, among which those of one owner and type are looked for."""


def usual_seconds(runtime: Runtime, job: Job, scope: str | None) -> float | None:
    """What half of the newest runs needed at most; None where there were too few.

    Whoever sees the jobs of one owner alone is told of no others.
    """
    above = 0 if scope is None else runtime.listing.floor(LOOKED_AT)
    narrow = JobFilter(job_type=job.job_type, scope=scope, above=above)
    return usual(runtime.history.newest(narrow, RUNS, ["succeeded"]))


def usually_takes(seconds: float | None) -> str:
    """`4 min 10 s`; a fraction of a second is not worth a figure."""
    if seconds is None:
        return ""
    return "less than a second" if seconds < 1 else whole_duration(seconds)


def expected_end(job: Job, seconds: float | None, now: datetime, zone: tzinfo) -> str:
    """When a running job is over if it takes as long as usual: a time, which does not grow old."""
    if seconds is None or job.started_at is None or not job.is_active:
        return ""
    end = job.started_at + timedelta(seconds=seconds)
    if end < now:
        return "It takes longer than usual"
    return moment(end, zone, now)
