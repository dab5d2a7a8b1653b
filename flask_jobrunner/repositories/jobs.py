"""The moves that callers make: add, mint, cancel, fail what is queued, requeue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, case, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from flask_jobrunner.model.records import Job, NewJob, OwnedJob
from flask_jobrunner.model.statuses import ClaimMode, JobStatus, Reason, may_move
from flask_jobrunner.protocol.fault_points import fault_point

from .announcing import announce
from .database import MISSING, Database
from .new_files import add_inputs
from .new_row import hash_lock_key, insert_unless_held, new_row
from .rows import add_event, clean_slate, ended, same, select_jobs, span, to_job, to_owned

MINT_GRACE = 10
"""A row that joined the host's transaction has this many claim windows to be launched in."""


class JobRepository:
    """Every move is one UPDATE that names attempt and status; the row count is the answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: NewJob) -> Job | None:
        """Commit a queued job. None when an active job holds the lock key."""

        def unit(connection: Connection) -> Job:
            job = self.in_transaction(connection, self.add_in(connection, new))
            if new.claim_mode == "trusted":
                announce(connection, self._database.tables)
            fault_point("submit.before_commit")
            return job

        try:
            made = self._database.run(
                unit, read_back=lambda connection: self._made(connection, new) or MISSING
            )
        except IntegrityError:
            # The row in the way may be this very one: its commit was under way when the
            # connection broke. Otherwise only the lock explains it, and nothing else is hidden.
            mine = self._database.read(lambda connection: self._made(connection, new))
            if mine is None and new.lock_key is None:
                raise
            return mine
        fault_point("submit.committed")
        return made

    def add_in(self, connection: Connection, new: NewJob) -> int:
        """Insert into the transaction that `connection` is in; returns the id."""
        added = self._add(connection, insert(self._database.tables.jobs), new)
        return added or 0

    def join_in(self, connection: Connection, new: NewJob) -> int | None:
        """Insert into the host's transaction; None when an active job holds the lock key.

        Not by an error: on PostgreSQL one would end the host's transaction with all its work.
        """
        return self._add(connection, insert_unless_held(self._database), new)

    def _add(self, connection: Connection, statement: Insert, new: NewJob) -> int | None:
        result = connection.execute(statement.values(**new_row(self._database, new)))
        # psycopg counts no rows here, and the others answer a key even where they inserted none.
        key = None if result.rowcount == 0 else result.inserted_primary_key
        if key is None:
            return None
        job_id = int(key[0])
        add_event(
            connection,
            self._database,
            job_id=job_id,
            action="start" if new.claim_mode == "token" else "enqueue",
            attempt=1,
            to_status=JobStatus.QUEUED,
            actor=new.actor,
        )
        add_inputs(connection, self._database, job_id, new.files)
        return job_id

    def in_transaction(self, connection: Connection, job_id: int) -> Job:
        """The job as the transaction of `connection` sees it."""
        statement = select_jobs(self._database).where(self._database.tables.jobs.c.id == job_id)
        return to_job(connection.execute(statement).mappings().one())

    def holder_in(self, connection: Connection, lock_key: str) -> Job | None:
        """The job that holds this lock key, as the transaction of `connection` sees it."""
        key = self._database.tables.jobs.c.active_lock_key == hash_lock_key(lock_key)
        row = connection.execute(select_jobs(self._database).where(key)).mappings().first()
        return None if row is None else to_job(row)

    def mint(self, job_id: int, attempt: int, credential_hash: str, claim_window: float) -> bool:
        """Give a committed row that has no credential yet its only one, and a deadline."""
        jobs = self._database.tables.jobs

        def unit(connection: Connection) -> bool:
            now = self._database.now()
            return self._update(
                connection,
                job_id,
                attempt,
                [JobStatus.QUEUED],
                {
                    "worker_token_hash": credential_hash,
                    "claim_deadline": now + span(claim_window),
                    "launched_at": now,
                },
                jobs.c.worker_token_hash.is_(None),
                jobs.c.claim_mode == "token",
            )

        def read_back(connection: Connection) -> object:
            where = [jobs.c.id == job_id, jobs.c.worker_token_hash == credential_hash]
            return True if connection.execute(select(jobs.c.id).where(*where)).first() else MISSING

        return self._database.run(unit, read_back=read_back)

    def get(self, ref: int | str) -> Job | None:
        """The job by id or uuid."""
        owned = self.owned(ref)
        return owned.job if owned else None

    def owned(self, ref: int | str) -> OwnedJob | None:
        """The job by id or uuid, with its ownership columns."""
        jobs = self._database.tables.jobs
        where = jobs.c.id == ref if isinstance(ref, int) else jobs.c.job_uuid == ref
        return self._one(where)

    def holder(self, lock_key: str) -> OwnedJob | None:
        """The job that holds this lock key now."""
        return self._one(self._database.tables.jobs.c.active_lock_key == hash_lock_key(lock_key))

    def get_many(self, refs: Iterable[int | str]) -> dict[str, Job]:
        """The jobs there are among these ids and uuids, by uuid."""
        jobs, wanted, found = self._database.tables.jobs, list(refs), dict[str, Job]()
        for start in range(0, len(wanted), 500):
            part = wanted[start : start + 500]
            is_one = or_(
                jobs.c.job_uuid.in_([ref for ref in part if isinstance(ref, str)]),
                jobs.c.id.in_([ref for ref in part if isinstance(ref, int)]),
            )
            statement = select_jobs(self._database).where(is_one)
            rows = self._database.rows(statement)
            found.update({row["job_uuid"]: to_job(row) for row in rows})
        return found

    def cancel_queued(self, job_id: int, attempt: int, actor: str | None) -> bool:
        """queued → cancelled."""

        def values() -> dict[str, Any]:
            asked = {"stop_reason": "cancel", "cancel_requested_at": self._database.now()}
            return ended(self._database, JobStatus.CANCELLED) | asked

        return self._move(job_id, attempt, JobStatus.QUEUED, values, action="cancel", actor=actor)

    def request_cancel(self, job_id: int, attempt: int, actor: str | None) -> bool:
        """running → cancel_requested."""
        stop_reason = self._database.tables.jobs.c.stop_reason

        def values() -> dict[str, Any]:
            return {
                "status": str(JobStatus.CANCEL_REQUESTED),
                # It only rises, and one reason is stronger.
                "stop_reason": case((stop_reason == "force", "force"), else_="cancel"),
                "cancel_requested_at": self._database.now(),
            }

        return self._move(job_id, attempt, JobStatus.RUNNING, values, action="cancel", actor=actor)

    def force_stop(
        self, job_id: int, attempt: int, from_status: JobStatus, actor: str | None
    ) -> bool:
        """running or cancel_requested → cancel_requested, and the process is to be ended."""
        asked_at = self._database.tables.jobs.c.cancel_requested_at

        def values() -> dict[str, Any]:
            return {
                "status": str(JobStatus.CANCEL_REQUESTED),
                "stop_reason": "force",
                "cancel_requested_at": func.coalesce(asked_at, self._database.now()),
            }

        return self._move(job_id, attempt, from_status, values, action="force_stop", actor=actor)

    def close_lost(self, job_id: int, attempt: int, actor: str | None) -> bool:
        """lost → cancelled: somebody has made sure that nothing of it runs any more."""

        def values() -> dict[str, Any]:
            closed = {"error_reason_code": str(Reason.LOST_CLOSED), "stop_reason": "force"}
            return ended(self._database, JobStatus.CANCELLED) | closed

        reason = str(Reason.LOST_CLOSED)
        return self._move(
            job_id, attempt, JobStatus.LOST, values, action="close", actor=actor, reason=reason
        )

    def fail_queued(
        self,
        job_id: int,
        attempt: int,
        reason: str,
        *,
        message: str,
        error_class: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        credential_hash: str | None = None,
        deadline: str | None = None,
    ) -> bool:
        """queued → failed, for exactly this attempt.

        `credential_hash` also demands that credential; `deadline` names a deadline column that
        must have passed (`claim_deadline`, `queue_deadline`).
        """
        jobs, extra = self._database.tables.jobs, list[ColumnElement[bool]]()
        if credential_hash is not None:
            extra.append(jobs.c.worker_token_hash == credential_hash)
        if deadline is not None:
            extra.append(jobs.c[deadline] <= self._database.now())

        def values() -> dict[str, Any]:
            return ended(self._database, JobStatus.FAILED) | {
                "error_reason_code": reason,
                "error_class": error_class,
                "error_message": message,
            }

        return self._move(
            job_id,
            attempt,
            JobStatus.QUEUED,
            values,
            *extra,
            action="fail",
            reason=reason,
            evidence=evidence,
        )

    def requeue(
        self,
        job: Job,
        *,
        credential_hash: str | None,
        claim_window: float | None,
        queue_budget: float | None,
        revision: str | None,
        config_digest: str,
        actor: str | None,
        claim_mode: ClaimMode = "token",
        delay: float | None = None,
        restarts_below: int | None = None,
    ) -> bool | None:
        """To `queued`, attempt + 1, lock taken. None: the lock is held. Durations are seconds.

        From a terminal status; or, under another revision, from `queued` while nobody is handing
        the job out. `restarts_below` counts it as a restart that nobody asked for, of which there
        may be so many.
        """
        waits = job.status == "queued" and claim_mode == "trusted"
        if not waits and (job.is_active or not may_move(job.status, JobStatus.QUEUED)):
            return False
        jobs = self._database.tables.jobs

        def values() -> dict[str, Any]:
            now = self._database.now()
            begin = now + span(delay or 0)
            return clean_slate() | {
                "status": str(JobStatus.QUEUED),
                "attempt": job.attempt + 1,
                "active_lock_key": None if job.lock_key is None else hash_lock_key(job.lock_key),
                "worker_token_hash": credential_hash,
                "claim_deadline": None if claim_window is None else now + span(claim_window),
                "queue_deadline": None if queue_budget is None else begin + span(queue_budget),
                "not_before": None if delay is None else begin,
                "queued_at": now,
                "launched_at": None if credential_hash is None else now,
                "unstarted_deaths": 0,
                "restarts": 0 if restarts_below is None else jobs.c.restarts + 1,
                "revision": revision,
                "config_digest": config_digest,
            }

        guard = [jobs.c.claim_mode == claim_mode]
        if waits:
            guard += [
                jobs.c.revision.is_not(None),
                jobs.c.revision != revision,
                or_(jobs.c.dispatch_until.is_(None), jobs.c.dispatch_until <= self._database.now()),
            ]
        if restarts_below is not None:
            guard.append(jobs.c.restarts < restarts_below)
        action = "requeue" if restarts_below is None else "restart"
        from_status = JobStatus(job.status)
        try:
            return self._move(
                job.id, job.attempt, from_status, values, *guard, action=action, actor=actor
            )
        except IntegrityError:
            return None

    def _one(self, where: ColumnElement[bool]) -> OwnedJob | None:
        statement = select_jobs(self._database).where(where)
        row = self._database.read(
            lambda connection: connection.execute(statement).mappings().first()
        )
        return to_owned(row) if row is not None else None

    def _made(self, connection: Connection, new: NewJob) -> Job | None:
        """The row that this very insert made."""
        jobs = self._database.tables.jobs
        statement = select_jobs(self._database).where(
            jobs.c.job_uuid == new.uuid, same(jobs.c.worker_token_hash, new.credential_hash)
        )
        row = connection.execute(statement).mappings().first()
        return None if row is None else to_job(row)

    def _move(
        self,
        job_id: int,
        attempt: int,
        from_status: JobStatus,
        values: Callable[[], dict[str, Any]],
        *extra: ColumnElement[bool],
        action: str,
        actor: str | None = None,
        reason: str | None = None,
        evidence: Mapping[str, Any] | None = None,
    ) -> bool:
        """One transition with its event. Idempotent after a commit that broke: see `read_back`."""

        def unit(connection: Connection) -> bool:
            new = values()
            if not self._update(connection, job_id, attempt, [from_status], new, *extra):
                return False
            add_event(
                connection,
                self._database,
                job_id=job_id,
                action=action,
                attempt=int(new.get("attempt", attempt)),
                from_status=from_status,
                to_status=new["status"],
                actor=actor,
                reason=reason,
                evidence=evidence,
            )
            if new["status"] == JobStatus.QUEUED:
                announce(connection, self._database.tables)
            fault_point("move.before")
            return True

        moved = self._database.run(
            unit, read_back=lambda connection: self._moved(connection, job_id, attempt, values())
        )
        fault_point("move.committed")
        return moved

    def _moved(
        self, connection: Connection, job_id: int, attempt: int, values: Mapping[str, Any]
    ) -> object:
        """Whether the row says that exactly this move was committed before the connection broke."""
        jobs, told = (
            self._database.tables.jobs,
            ("status", "worker_token_hash", "error_reason_code"),
        )
        same = [jobs.c[name] == values[name] for name in told if values.get(name) is not None]
        where = [jobs.c.id == job_id, jobs.c.attempt == values.get("attempt", attempt), *same]
        return True if connection.execute(select(jobs.c.id).where(*where)).first() else MISSING

    def _update(
        self,
        connection: Connection,
        job_id: int,
        attempt: int,
        statuses: Iterable[JobStatus],
        values: Mapping[str, Any],
        *extra: ColumnElement[bool],
    ) -> bool:
        jobs = self._database.tables.jobs
        result = connection.execute(
            update(jobs)
            .where(
                jobs.c.id == job_id,
                jobs.c.attempt == attempt,
                jobs.c.status.in_([str(status) for status in statuses]),
                *extra,
            )
            .values(row_version=jobs.c.row_version + 1, updated_at=self._database.now(), **values)
        )
        return result.rowcount == 1
