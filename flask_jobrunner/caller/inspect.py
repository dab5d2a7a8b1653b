"""Looking at jobs: status with a log slice, one, many, a page, and waiting for the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flask_jobrunner.model.errors import InvalidPayload, JobNotFound
from flask_jobrunner.model.records import Job, OwnedJob, Page
from flask_jobrunner.model.results import StatusResult
from flask_jobrunner.model.statuses import JobStatus
from flask_jobrunner.model.words import nobody_takes
from flask_jobrunner.protocol.checks import is_uuid
from flask_jobrunner.protocol.encoding import clean_text, decode_json
from flask_jobrunner.recovery.settle import settle_row
from flask_jobrunner.repositories.listing import JobFilter
from flask_jobrunner.runtime import Runtime

LOG_LIMIT_MAX = 1000


def check_ref(ref: object) -> int | str:
    """A job's id or uuid as it is stored; raises `InvalidPayload` for what can be neither.

    A number of more digits than an id has, or text that is no uuid, simply names no job.
    """
    if isinstance(ref, bool) or not isinstance(ref, (int, str)):
        raise InvalidPayload(f"A job is named by its uuid or id, not by a {type(ref).__name__}.")
    if isinstance(ref, int):
        return ref if 0 < ref < 2**63 else 0
    return ref.lower() if is_uuid(ref.lower()) else 0


def look_at(runtime: Runtime, ref: int | str) -> OwnedJob | None:
    """The row, settled first: what is looked at is what is true."""
    return settle_row(runtime, ref)


def status(
    runtime: Runtime, ref: int | str, after_seq: int | None = None, limit: int = 200
) -> StatusResult:
    """See `JobRunner.status`."""
    if (after_seq is not None and after_seq < 0) or limit < 1:
        raise InvalidPayload("after_seq must be 0 or more, and limit 1 or more.")
    seen = look_at(runtime, ref)
    if seen is None:
        return StatusResult(status="not_found", job=None, message="There is no such job.")
    limit = min(limit, LOG_LIMIT_MAX)
    if after_seq is not None and after_seq > seen.log_seq:
        logs = []
    elif after_seq is None:
        logs = runtime.logs.newest(seen.job.id, limit)
    else:
        logs = runtime.logs.after(seen.job.id, after_seq, limit)
    return StatusResult(
        status="found",
        job=seen.job,
        logs=logs,
        last_log_seq=logs[-1].seq if logs else after_seq or 0,
        result=decode_json(seen.result_json),
        error=error_of(seen.job),
        artifacts=[stored.file for stored in runtime.files.of(seen.job.id, "output")],
    )


def error_of(job: Job) -> dict[str, Any] | None:
    """`class`, `reason_code` and `message` of a job's error; None where there is none."""
    if job.error_class is None and job.error_reason_code is None and job.error_message is None:
        return None
    return {
        "class": job.error_class,
        "reason_code": job.error_reason_code,
        "message": job.error_message,
    }


def why_untaken(runtime: Runtime, owned: OwnedJob) -> str:
    """Why no supervisor takes this job; empty where one does, or will when it is time."""
    if owned.claim_mode != "trusted" or owned.job.status != "queued":
        return ""
    if owned.dispatch_until is not None and owned.dispatch_until > owned.now:
        return ""
    alive = runtime.supervisors.alive(runtime.supervisor_silence)
    return nobody_takes(owned.job.job_type, owned.revision, alive) or ""


def get(runtime: Runtime, ref: int | str) -> Job | None:
    """See `JobRunner.get`."""
    seen = look_at(runtime, ref)
    return seen.job if seen is not None else None


def get_many(runtime: Runtime, refs: Iterable[int | str]) -> dict[str, Job]:
    """See `JobRunner.get_many`."""
    return runtime.jobs.get_many([check_ref(ref) for ref in refs])


def find(
    runtime: Runtime,
    *,
    status: str | Sequence[str] | None = None,
    job_type: str | None = None,
    owner: str | None = None,
    reference: str | None = None,
    actor: str | None = None,
    lock_key: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """See `JobRunner.find`."""
    statuses = [status] if isinstance(status, str) else status
    known = {str(one) for one in JobStatus}
    for one in statuses or ():
        if one not in known:
            raise InvalidPayload(f"{one!r} is not a status; they are {', '.join(sorted(known))}.")
    narrow = JobFilter(
        status=statuses,
        job_type=_storable(job_type),
        owner=_storable(owner),
        reference=_storable(reference),
        actor=_storable(actor),
        lock_key=_storable(lock_key),
    )
    return runtime.listing.find(narrow, cursor=cursor, limit=limit)


def _storable(text: str | None) -> str | None:
    # What no database takes as text can be the value of no row either.
    return None if text is None else clean_text(text)


def wait_for(
    runtime: Runtime,
    ref: int | str,
    timeout: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Job:
    """See `JobRunner.wait`."""
    until, step = monotonic() + timeout, 0.05
    while True:
        job = get(runtime, ref)
        if job is None:
            raise JobNotFound(f"There is no job {ref}.")
        left = until - monotonic()
        if job.is_terminal or not left > 0:  # NaN is no time at all, and not for ever
            return job
        pause(min(step, left))
        step = min(step * 1.5, 1.0)
