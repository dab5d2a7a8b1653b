"""Removing what is old: ended jobs and their lines, a bounded number of rows at a time.

Every step names the end that it saw: a job that was requeued meanwhile is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from flask_jobrunner.model.statuses import TERMINAL, JobStatus
from flask_jobrunner.protocol.fault_points import fault_point

from .database import Database

LINES_AT_ONCE = 5000
"""Lines that one transaction removes: on SQLite all other writers wait for it."""
# A lost job holds its lock until somebody has decided about it.
_REMOVABLE = sorted(str(status) for status in TERMINAL - {JobStatus.LOST})

What = Literal["jobs", "lines"]


@dataclass(frozen=True, kw_only=True)
class EndedJob:
    """A job that may be removed, or whose lines may: as it was when it was found."""

    id: int
    uuid: str
    finished_at: int
    lines: int
    """How many lines it has at most."""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How much there is to remove."""

    jobs: int
    lines: int


class RetentionRepository:
    """Ended jobs, oldest end first. Ages are seconds since the end, by the database's clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(
        self, what: What, age: float, *, after: EndedJob | None = None, limit: int = 100
    ) -> list[EndedJob]:
        """Those that ended more than `age` ago; for `lines`, those that have some."""
        jobs = self._database.tables.jobs
        statement = select(jobs.c.id, jobs.c.job_uuid, jobs.c.finished_at, jobs.c.log_seq)
        statement = statement.where(*self._old(what, age))
        if after is not None:
            beside = and_(jobs.c.finished_at == after.finished_at, jobs.c.id > after.id)
            statement = statement.where(or_(jobs.c.finished_at > after.finished_at, beside))
        rows = self._database.rows(statement.order_by(jobs.c.finished_at, jobs.c.id).limit(limit))
        return [
            EndedJob(
                id=row["id"],
                uuid=row["job_uuid"],
                finished_at=row["finished_at"],
                lines=row["log_seq"],
            )
            for row in rows
        ]

    def amount(self, what: What, age: float) -> Amount:
        """How many jobs that is, and how many lines they have."""
        jobs, logs = self._database.tables.jobs, self._database.tables.logs
        old = self._old(what, age)
        number = select(func.count().label("number")).select_from(jobs).where(*old)
        lines = select(func.count().label("number")).select_from(
            logs.join(jobs, logs.c.job_id == jobs.c.id)
        )
        return Amount(jobs=self._count(number), lines=self._count(lines.where(*old)))

    def remove_lines(self, job: EndedJob, limit: int = LINES_AT_ONCE) -> int | None:
        """Remove the job's first lines, at most `limit`, and say how many those were.

        None: the job is not as it was found. With the last of its lines, the row forgets how
        large its log was; that is how one sees that lines were there.
        """
        tables = self._database.tables
        logs = tables.logs

        def unit(connection: Connection) -> int | None:
            if not self._hold(connection, job):
                return None
            first = select(func.min(logs.c.seq)).where(logs.c.job_id == job.id)
            start = connection.execute(first).scalar_one_or_none()
            removed = 0
            if start is not None:
                chunk = and_(logs.c.job_id == job.id, logs.c.seq < start + limit)
                removed = connection.execute(delete(logs).where(chunk)).rowcount
            if removed < limit:
                forgotten = update(tables.jobs).where(tables.jobs.c.id == job.id)
                connection.execute(forgotten.values(log_bytes=0))
            return removed

        return self._database.run(unit)

    def remove_job(self, job: EndedJob) -> bool:
        """Remove the row and all that belongs to it, but its lines should be gone already.

        False: it is not as it was found, or a table of the host's refers to it.
        """
        tables = self._database.tables

        def unit(connection: Connection) -> bool:
            if not self._hold(connection, job):
                return False
            for table in (tables.logs, tables.events, tables.files, tables.attempts):
                connection.execute(delete(table).where(table.c.job_id == job.id))
            fault_point("retain.children")
            gone = delete(tables.jobs).where(tables.jobs.c.id == job.id)
            return connection.execute(gone).rowcount == 1

        try:
            removed = self._database.run(unit)
        except IntegrityError:
            return False
        fault_point("retain.parent")
        return removed

    def _hold(self, connection: Connection, job: EndedJob) -> bool:
        """Lock the row, if it is as it was found. The row goes first everywhere: see `fenced`."""
        jobs = self._database.tables.jobs
        same: Select[Any] = select(jobs.c.id).where(
            jobs.c.id == job.id,
            jobs.c.finished_at == job.finished_at,
            jobs.c.status.in_(_REMOVABLE),
        )
        return connection.execute(same.with_for_update()).first() is not None

    def _old(self, what: What, age: float) -> list[ColumnElement[bool]]:
        jobs = self._database.tables.jobs
        where = [
            jobs.c.finished_at < self._database.now() - int(age * 1_000_000),
            jobs.c.status.in_(_REMOVABLE),
        ]
        return where if what == "jobs" else [*where, jobs.c.log_bytes > 0]

    def _count(self, statement: Select[Any]) -> int:
        return int(self._database.rows(statement)[0]["number"])
