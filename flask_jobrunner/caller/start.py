"""`jobs.start`: check, commit a row, launch its process, and believe the row."""

from __future__ import annotations

import functools
import logging
import warnings
from typing import Any

from flask_jobrunner.handlers import Handler
from flask_jobrunner.model.errors import ConfigError, LockBusy, UncommittedChanges
from flask_jobrunner.model.records import Job, NewJob
from flask_jobrunner.model.results import StartResult
from flask_jobrunner.protocol.envelope import hash_credential, new_credential
from flask_jobrunner.recovery.settle import holder_settled
from flask_jobrunner.repositories.host_session import join, on_root_commit
from flask_jobrunner.repositories.jobs import MINT_GRACE
from flask_jobrunner.runtime import Runtime, is_building
from flask_jobrunner.signals import job_created, send

from .handover import Wait, launch_attempt
from .prepare import check_can_launch, check_wait, prepare

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
    wait: Wait = True,
    session: Any = None,
) -> StartResult:
    """See `JobRunner.start`."""
    check_wait(wait)
    handler = runtime.handlers.find(job_type)
    credential = None if session is not None else new_credential()
    window = runtime.config.claim_window * (1 if credential else MINT_GRACE)
    new = prepare(
        runtime,
        handler,
        payload,
        credential_hash=hash_credential(credential) if credential else None,
        claim_window=window,
        lock_key=lock_key,
        title=title,
        owner=owner,
        reference=reference,
        actor=actor,
    )
    check_can_launch(runtime)
    if is_building():
        return _start_while_building(runtime, new)
    if credential is None:
        # Reads only: on SQLite, the session may hold the one write lock that there is.
        runtime.meta.check()
        return _start_in_session(runtime, handler, new, session)
    refuse_uncommitted(runtime)
    runtime.meta.ensure()
    job = add_or_holder(runtime, new)
    if job.uuid != new.uuid:
        return already_active(job)
    send(job_created, runtime.app, job=job)
    launched = launch_attempt(runtime, job, credential, wait=wait)
    return StartResult(
        status=launched.status,
        job=launched.job,
        reason_code=launched.reason_code,
        message=launched.message,
    )


def _start_while_building(runtime: Runtime, new: NewJob) -> StartResult:
    """A factory that starts a job, called in that job's process, would start the next, for ever."""
    holder = holder_settled(runtime, new.lock_key) if new.lock_key else None
    if holder is None:
        raise ConfigError(
            "Building the application starts a job, and a job's process builds the application: "
            "that would never end. Start it elsewhere, or only where process_role() is 'web'."
        )
    return already_active(holder)


def add_or_holder(runtime: Runtime, new: NewJob) -> Job:
    """The new job, or the one that holds its lock key: the holder is settled, then one retry."""
    for _ in (1, 2):
        job = runtime.jobs.add(new)
        if job is not None:
            return job
        holder = holder_settled(runtime, new.lock_key or "")
        if holder is not None:
            return holder
    # Two holders came and went meanwhile: the lock is free and contended, and the third says how.
    return runtime.jobs.add(new) or _last_holder(runtime, new)


def _last_holder(runtime: Runtime, new: NewJob) -> Job:
    holder = runtime.jobs.holder(new.lock_key or "")
    if holder is None:
        raise _too_fast(new)
    return holder.job


def _too_fast(new: NewJob) -> LockBusy:
    return LockBusy(f"The lock key {new.lock_key!r} changes hands too fast; try again.")


def already_active(holder: Job) -> StartResult:
    """The answer where the lock is held."""
    return StartResult(
        status="already_active",
        job=holder,
        message=f"Job {holder.uuid} holds this lock key; it is {holder.status}.",
    )


def refuse_uncommitted(runtime: Runtime) -> None:
    """Raise `UncommittedChanges` (or warn) while `db.session` holds what the job could not see."""
    found = runtime.uncommitted()
    if found is None:
        return
    if runtime.config.uncommitted == "warn":
        warnings.warn(found.message, stacklevel=4)
        return
    raise UncommittedChanges(found.message)


def _start_in_session(runtime: Runtime, handler: Handler, new: NewJob, session: Any) -> StartResult:
    """Join the host's transaction; launch once its root has committed."""
    connection = join(session, runtime.database.engine, runtime.database.tables.jobs)
    job_id = None
    for _ in (1, 2):
        holder = _holder_seen_by(runtime, connection, new.lock_key) if new.lock_key else None
        if holder is not None:
            return already_active(holder)
        job_id = runtime.jobs.join_in(connection, new)
        if job_id is not None:
            break
    if job_id is None:
        raise _too_fast(new)
    job = runtime.jobs.in_transaction(connection, job_id)
    on_root_commit(session, functools.partial(_launch_committed, runtime, job_id))
    return StartResult(
        status="launching",
        job=job,
        message=f"{handler.job_type} is launched when the transaction has committed.",
    )


def _holder_seen_by(runtime: Runtime, connection: Any, lock_key: str) -> Job | None:
    holder = holder_settled(runtime, lock_key)
    if holder is not None:
        return holder
    # One that started in this very transaction. Any other that only it sees is an old snapshot.
    own = runtime.jobs.holder_in(connection, lock_key)
    return own if own is not None and runtime.jobs.get(own.id) is None else None


def _launch_committed(runtime: Runtime, job_id: int) -> None:
    with runtime.app.app_context():
        credential = new_credential()
        window = runtime.config.claim_window
        if not runtime.jobs.mint(job_id, 1, hash_credential(credential), window):
            return  # cancelled, or its time to be launched was over
        job = runtime.jobs.get(job_id)
        if job is None:
            return
        send(job_created, runtime.app, job=job)
        launched = launch_attempt(runtime, job, credential, wait=False)
        if launched.status == "launch_failed":
            log.error("Job %s could not be launched: %s", job.uuid, launched.message)
