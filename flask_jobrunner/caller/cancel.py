"""`jobs.cancel`: cancel what waits, ask what runs. Never signals anybody itself."""

from __future__ import annotations

from typing import Literal

from flask_jobrunner.model.records import Job
from flask_jobrunner.model.results import CancelResult, CancelStatus
from flask_jobrunner.model.statuses import OWNED, JobStatus, StatusText
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.signals import cancel_requested, job_finished, send

from .prepare import check_actor

TRIES = 10


def cancel(
    runtime: Runtime, ref: int | str, *, actor: str | None = None, force: bool = False
) -> CancelResult:
    """See `JobRunner.cancel`."""
    who = check_actor(runtime, actor)
    for _ in range(TRIES):
        job = runtime.jobs.get(ref)
        if job is None:
            return CancelResult(status="not_found", job=None, message="There is no such job.")
        result = _force(runtime, job, who) if force else _cancel(runtime, job, who)
        if result is not None:
            return result
    raise AssertionError(f"job {ref} changes its status faster than it can be read")


def _cancel(runtime: Runtime, job: Job, actor: str | None) -> CancelResult | None:
    """The answer, or None when the row moved on since it was read."""
    if job.is_terminal:
        return _answer("already_terminal", job, job, job.status)
    if job.status == "cancel_requested":
        return _answer("already_cancel_requested", job, job, job.status)
    if job.status == "queued":
        done = runtime.jobs.cancel_queued(job.id, job.attempt, actor)
        return _moved(runtime, job, "cancelled") if done else None
    asked = runtime.jobs.request_cancel(job.id, job.attempt, actor)
    return _moved(runtime, job, "cancel_requested") if asked else None


def _force(runtime: Runtime, job: Job, actor: str | None) -> CancelResult | None:
    """The same, for a process that is to be ended, and for a job that is lost."""
    if job.status == "lost":
        closed = runtime.jobs.close_lost(job.id, job.attempt, actor)
        return _moved(runtime, job, "cancelled") if closed else None
    if job.status not in OWNED or job.stop_reason == "force":
        return _cancel(runtime, job, actor)
    asked = runtime.jobs.force_stop(job.id, job.attempt, JobStatus(job.status), actor)
    return _moved(runtime, job, "cancel_requested") if asked else None


def _moved(
    runtime: Runtime, before: Job, status: Literal["cancelled", "cancel_requested"]
) -> CancelResult:
    fault_point("cancel.committed")
    after = runtime.jobs.get(before.id) or before
    signal = job_finished if status == "cancelled" else cancel_requested
    send(signal, runtime.app, job=after)
    # What this call did: the job may have ended since, as `.job` shows.
    return _answer(status, before, after, status)


def _answer(status: CancelStatus, before: Job, after: Job, new: StatusText) -> CancelResult:
    return CancelResult(status=status, job=after, previous_status=before.status, new_status=new)
