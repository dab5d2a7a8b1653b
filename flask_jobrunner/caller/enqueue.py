"""`jobs.enqueue`: check, commit a row, and leave it to a supervisor."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Any

from flask_jobrunner.model.records import Job
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
    check_can_be_seen(runtime)
    if is_building():
        return _already_active(holder_while_building(runtime, new))
    if session is not None:
        # Reads only: on SQLite, the session may hold the one write lock that there is.
        runtime.meta.check()
        job = join_or_holder(runtime, new, session, functools.partial(_committed, runtime))
    else:
        refuse_uncommitted(runtime)
        runtime.meta.ensure()
        job = add_or_holder(runtime, new)
    if job.uuid != new.uuid:
        return _already_active(job)
    if session is None:
        send(job_created, runtime.app, job=job)
    return EnqueueResult(status="queued", job=job)


def _already_active(holder: Job) -> EnqueueResult:
    return EnqueueResult(status="already_active", job=holder, message=held_by(holder))


def _committed(runtime: Runtime, job_id: int) -> None:
    with runtime.app.app_context():
        job = runtime.jobs.get(job_id)
        if job is not None:
            send(job_created, runtime.app, job=job)
