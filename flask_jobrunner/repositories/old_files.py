"""Files whose time is over, and bytes that no row names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select, update

from flask_jobrunner.model.statuses import TERMINAL, JobStatus

from .database import Database

# Active jobs may still read theirs, and about a lost one somebody has yet to decide.
_ENDED = sorted(str(status) for status in TERMINAL - {JobStatus.LOST})


@dataclass(frozen=True, kw_only=True)
class OldFile:
    """One that may go."""

    id: int
    job_id: int
    job_uuid: str
    path: str | None


@dataclass(frozen=True, kw_only=True)
class Folder:
    """What the rows say of one job's folder."""

    may_be_written: bool
    """The job is active or lost: what no row names may be about to be named."""
    names: frozenset[str]
    """Paths that rows name."""


class OldFileRepository:
    """Ages are seconds, by the database's clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, age: float | None, *, after: int = 0, limit: int = 100) -> list[OldFile]:
        """Files of ended jobs that are past their expiry, or were made `age` ago; by id."""
        jobs, files = self._database.tables.jobs, self._database.tables.files
        statement = (
            select(files.c.id, files.c.job_id, files.c.path, jobs.c.job_uuid)
            .select_from(files.join(jobs, files.c.job_id == jobs.c.id))
            .where(*self._old(age), files.c.id > after)
        )
        rows = self._database.rows(statement.order_by(files.c.id).limit(limit))
        return [OldFile(**row) for row in rows]

    def amount(self, age: float | None) -> int:
        """How many those are."""
        jobs, files = self._database.tables.jobs, self._database.tables.files
        joined = files.join(jobs, files.c.job_id == jobs.c.id)
        number: Select[Any] = select(func.count().label("number")).select_from(joined)
        return int(self._database.rows(number.where(*self._old(age)))[0]["number"])

    def bury(self, old: OldFile) -> bool:
        """Say that the bytes are gone, before they are; the row stays. False: the job runs again.

        In this order a row may miss bytes that are still there, and never the other way round.
        """
        jobs, files = self._database.tables.jobs, self._database.tables.files

        def unit(connection: Connection) -> bool:
            ended = select(jobs.c.id).where(jobs.c.id == old.job_id, jobs.c.status.in_(_ENDED))
            if connection.execute(ended.with_for_update()).first() is None:
                return False
            there = update(files).where(files.c.id == old.id, files.c.expired_at.is_(None))
            values = {"expired_at": self._database.now(), "path": None}
            connection.execute(there.values(**values))
            return True

        return self._database.run(unit)

    def folders(self, uuids: Sequence[str]) -> dict[str, Folder]:
        """What is known of these jobs; those that are not there are left out."""
        jobs, files = self._database.tables.jobs, self._database.tables.files
        statement = (
            select(jobs.c.job_uuid, jobs.c.status, files.c.path)
            .select_from(jobs.outerjoin(files, files.c.job_id == jobs.c.id))
            .where(jobs.c.job_uuid.in_(uuids))
        )
        named: dict[str, set[str]] = {}
        ended: dict[str, bool] = {}
        for row in self._database.rows(statement):
            named.setdefault(row["job_uuid"], set()).add(row["path"] or "")
            ended[row["job_uuid"]] = row["status"] in _ENDED
        return {
            uuid: Folder(may_be_written=not ended[uuid], names=frozenset(names))
            for uuid, names in named.items()
        }

    def _old(self, age: float | None) -> list[ColumnElement[bool]]:
        jobs, files = self._database.tables.jobs, self._database.tables.files
        now = self._database.now()
        over = files.c.expires_at < now
        if age is not None:
            over = or_(over, files.c.created_at < now - int(age * 1_000_000))
        return [files.c.expired_at.is_(None), jobs.c.status.in_(_ENDED), over]
