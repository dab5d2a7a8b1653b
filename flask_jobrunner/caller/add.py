"""The row of a new job: committed by ourselves, or with the host's transaction."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from flask_jobrunner.model.errors import ConfigError, LockBusy, UncommittedChanges
from flask_jobrunner.model.records import Job, NewJob
from flask_jobrunner.recovery.settle import holder_settled
from flask_jobrunner.repositories.host_session import join, on_root_commit
from flask_jobrunner.runtime import Runtime


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


def join_or_holder(
    runtime: Runtime, new: NewJob, session: Any, committed: Callable[[int], None]
) -> Job:
    """The new job in the host's transaction, or the one that holds its lock key.

    `committed` is called with the job's id once the root transaction has committed.
    """
    connection = join(session, runtime.database.engine, runtime.database.tables.jobs)
    for _ in (1, 2):
        holder = _holder_seen_by(runtime, connection, new.lock_key) if new.lock_key else None
        if holder is not None:
            return holder
        job_id = runtime.jobs.join_in(connection, new)
        if job_id is not None:
            on_root_commit(session, functools.partial(committed, job_id))
            return runtime.jobs.in_transaction(connection, job_id)
    raise _too_fast(new)


def holder_while_building(runtime: Runtime, new: NewJob) -> Job:
    """The job that holds the lock key; a new one would never end to be made.

    Raises `ConfigError` where nobody holds it: a job's process builds the application, which would
    ask for the next job, whose process builds the application.
    """
    holder = holder_settled(runtime, new.lock_key) if new.lock_key else None
    if holder is None:
        raise ConfigError(
            "Building the application asks for a job, and a job's process builds the application: "
            "that would never end. Ask elsewhere, or only where process_role() is 'web'."
        )
    return holder


def _holder_seen_by(runtime: Runtime, connection: Any, lock_key: str) -> Job | None:
    holder = holder_settled(runtime, lock_key)
    if holder is not None:
        return holder
    # One that started in this very transaction. Any other that only it sees is an old snapshot.
    own = runtime.jobs.holder_in(connection, lock_key)
    return own if own is not None and runtime.jobs.get(own.id) is None else None


def held_by(holder: Job) -> str:
    """The sentence where the lock is held."""
    return f"Job {holder.uuid} holds this lock key; it is {holder.status}."


def refuse_uncommitted(runtime: Runtime) -> None:
    """Raise `UncommittedChanges` (or warn) while `db.session` holds what the job could not see."""
    found = runtime.uncommitted()
    if found is None:
        return
    if runtime.config.uncommitted == "warn":
        warnings.warn(found.message, stacklevel=4)
        return
    raise UncommittedChanges(found.message)
