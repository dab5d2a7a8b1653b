"""`jobs.start`: check, commit a row, launch its process, and believe the row."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from flask_jobrunner.files.inputs import Files, add_with_files, check_files
from flask_jobrunner.model.records import Job, NewJob
from flask_jobrunner.model.results import StartResult
from flask_jobrunner.protocol.envelope import hash_credential, new_credential
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.repositories.jobs import MINT_GRACE
from flask_jobrunner.runtime import Runtime, is_building
from flask_jobrunner.signals import job_created, send

from .add import (
    add_or_holder,
    held_by,
    holder_while_building,
    join_or_holder,
    refuse_uncommitted,
)
from .handover import Wait
from .prepare import check_can_launch, check_wait, prepare
from .tested import hand_over, needs_credential, record

log = logging.getLogger("flask_jobrunner")


def start(
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
    wait: Wait = True,
    session: Any = None,
) -> StartResult:
    """See `JobRunner.start`."""
    check_wait(wait)
    handler = runtime.handlers.find(job_type)
    claimed = needs_credential(runtime)
    credential = new_credential() if session is None and claimed else None
    window = runtime.config.claim_window * (1 if session is None else MINT_GRACE)
    new = prepare(
        runtime,
        handler,
        payload,
        credential_hash=hash_credential(credential) if credential else None,
        claim_window=window if claimed else None,
        lock_key=lock_key,
        title=title,
        owner=owner,
        reference=reference,
        actor=actor,
    )
    check_files(runtime, files)
    check_can_launch(runtime)
    if is_building():
        return already_active(holder_while_building(runtime, new))
    if session is not None:
        # Reads only: on SQLite, the session may hold the one write lock that there is.
        runtime.meta.check()
        return _start_in_session(runtime, new, files, session)
    refuse_uncommitted(runtime)
    runtime.meta.ensure()
    job = add_with_files(runtime, new, files, partial(add_or_holder, runtime))
    if job.uuid != new.uuid:
        return already_active(job)
    send(job_created, runtime.app, job=job)
    record(runtime, "start", job)
    launched = hand_over(runtime, job, credential, wait=wait)
    return StartResult(
        status=launched.status,
        job=launched.job,
        reason_code=launched.reason_code,
        message=launched.message,
    )


def already_active(holder: Job) -> StartResult:
    """The answer where the lock is held."""
    return StartResult(
        status="already_active",
        job=holder,
        message=held_by(holder),
    )


def _start_in_session(
    runtime: Runtime, new: NewJob, files: Files | None, session: Any
) -> StartResult:
    """Join the host's transaction; launch once its root has committed."""

    def join(new: NewJob) -> Job:
        return join_or_holder(runtime, new, session, partial(_launch_committed, runtime))

    job = add_with_files(runtime, new, files, join)
    if job.uuid != new.uuid:
        return already_active(job)
    return StartResult(
        status="launching",
        job=job,
        message=f"{job.job_type} is launched when the transaction has committed.",
    )


def _launch_committed(runtime: Runtime, job_id: int) -> None:
    with runtime.app.app_context():
        credential = new_credential() if needs_credential(runtime) else None
        window = runtime.config.claim_window
        fault_point("mint.before")
        if credential and not runtime.jobs.mint(job_id, 1, hash_credential(credential), window):
            return  # cancelled, or its time to be launched was over
        fault_point("mint.committed")
        job = runtime.jobs.get(job_id)
        if job is None:
            return
        send(job_created, runtime.app, job=job)
        record(runtime, "start", job)
        launched = hand_over(runtime, job, credential, wait=False)
        if launched.status == "launch_failed":
            log.error("Job %s could not be launched: %s", job.uuid, launched.message)
