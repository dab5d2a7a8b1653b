"""A job's row as it is inserted."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import ColumnElement, Insert, case, insert, literal
from sqlalchemy.dialects import postgresql, sqlite

from flask_jobrunner.model.records import NewJob
from flask_jobrunner.model.statuses import JobStatus

from .database import Database
from .rows import span


def hash_lock_key(lock_key: str) -> str:
    """What is compared: exact bytes, whatever the database's collation."""
    return hashlib.sha256(lock_key.encode("utf-8")).hexdigest()


def insert_unless_held(database: Database) -> Insert:
    """An insert that does nothing where the lock key is taken; it waits for whoever takes it."""
    jobs, columns = database.tables.jobs, ["active_lock_key"]
    if database.dialect == "postgresql":
        return postgresql.insert(jobs).on_conflict_do_nothing(index_elements=columns)
    if database.dialect == "sqlite":
        return sqlite.insert(jobs).on_conflict_do_nothing(index_elements=columns)
    return insert(jobs).prefix_with("IGNORE")


def new_row(database: Database, new: NewJob) -> dict[str, Any]:
    """The columns that a new row has; the others are NULL."""
    now = database.now()
    return {
        "job_uuid": new.uuid,
        "job_type": new.job_type,
        "status": str(JobStatus.QUEUED),
        "claim_mode": new.claim_mode,
        "title": new.title,
        "owner": new.owner,
        "reference": new.reference,
        "actor": new.actor,
        "lock_key": new.lock_key,
        "active_lock_key": None if new.lock_key is None else hash_lock_key(new.lock_key),
        "priority": new.priority,
        "not_before": new.not_before,
        "payload_json": new.payload_json,
        "base_url": new.base_url,
        "revision": new.revision,
        "config_digest": new.config_digest,
        "row_version": 1,
        "attempt": 1,
        "unstarted_deaths": 0,
        "restarts": 0,
        "warning_count": 0,
        "error_count": 0,
        "log_seq": 0,
        "log_bytes": 0,
        "worker_token_hash": new.credential_hash,
        "claim_deadline": None if new.claim_window is None else now + span(new.claim_window),
        "queue_deadline": _queue_deadline(now, new.queue_budget, new.not_before),
        "launched_at": None if new.credential_hash is None else now,
        "created_at": now,
        "queued_at": now,
        "updated_at": now,
    }


def _queue_deadline(
    now: ColumnElement[int], budget: float | None, not_before: int | None
) -> ColumnElement[int] | None:
    """Waiting begins when the job may begin."""
    if budget is None:
        return None
    if not_before is None:
        return now + span(budget)
    return case((now < not_before, literal(not_before)), else_=now) + span(budget)
