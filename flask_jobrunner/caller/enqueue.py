"""`jobs.enqueue`: check, commit a row, and leave it to a supervisor."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from flask_jobrunner.files.inputs import Files, add_with_files, check_files
from flask_jobrunner.model.records import Job, NewJob
from flask_jobrunner.model.results import EnqueueResult
from flask_jobrunner.runtime import Runtime, is_building
from flask_jobrunner.signals import job_created, send

from .add import (
    add_or_holder,
    held_by,
    holder_while_building,
    join_or_holder,
    refuse_uncommitted,
)
from .prepare import check_can_be_seen, prepare
from .tested import record, take_from_queue


def enqueue(
    runtime: Runtime,
    job_type: str,
    payload: dict[str, Any] | None = None,
    *,
    lock_key: str | None = None,
    title: str | None = None,
    owner: str | None = None,
    reference: str | None = None,
    actor: str | None = None,
    files: Files | None = None,
    priority: int = 0,
    not_before: datetime | None = None,
    session: Any = None,
) -> EnqueueResult:
    """See `JobRunner.enqueue`."""
    new = prepare(
        runtime,
        runtime.handlers.find(job_type),
        payload,
        claim_mode="trusted",
        lock_key=lock_key,
        title=title,
        owner=owner,
        reference=reference,
        actor=actor,
        priority=priority,
        not_before=not_before,
    )
    check_files(runtime, files)
    check_can_be_seen(runtime)
    if is_building():
        return _already_active(holder_while_building(runtime, new))
    if session is not None:
        # Reads only: on SQLite, the session may hold the one write lock that there is.
        runtime.meta.check()

        def join(new: NewJob) -> Job:
            return join_or_holder(runtime, new, session, partial(_committed, runtime))

        job = add_with_files(runtime, new, files, join)
    else:
        refuse_uncommitted(runtime)
        runtime.meta.ensure()
        job = add_with_files(runtime, new, files, partial(add_or_holder, runtime))
    if job.uuid != new.uuid:
        return _already_active(job)
    if session is None:
        job = _created(runtime, job)
    return EnqueueResult(status="queued", job=job)


def _created(runtime: Runtime, job: Job) -> Job:
    send(job_created, runtime.app, job=job)
    record(runtime, "enqueue", job)
    return take_from_queue(runtime, job)


def _already_active(holder: Job) -> EnqueueResult:
    return EnqueueResult(status="already_active", job=holder, message=held_by(holder))


def _committed(runtime: Runtime, job_id: int) -> None:
    with runtime.app.app_context():
        job = runtime.jobs.get(job_id)
        if job is not None:
            runtime.waking.tell()
            _created(runtime, job)
