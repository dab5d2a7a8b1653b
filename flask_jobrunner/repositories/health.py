"""Whether a database is fit for jobs: measured on the live one, for `flask jobs doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from time import time_ns
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select, update

from flask_jobrunner.model.statuses import OWNED, JobStatus

from .database import Database


@dataclass(frozen=True, kw_only=True)
class SQLiteFacts:
    """What matters about an SQLite file and the library that opens it."""

    path: str
    version: tuple[int, ...]
    journal_mode: str


class HealthRepository:
    """Reads, and one write that changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def address(self) -> str:
        """The database's address, its password hidden."""
        return self._database.engine.url.render_as_string(hide_password=True)

    def sqlite(self) -> SQLiteFacts | None:
        """Facts of an SQLite file; None for any other database."""
        path = self._database.file
        if path is None:
            return None
        mode, version = self._database.read(
            lambda connection: (
                connection.exec_driver_sql("PRAGMA journal_mode").scalar_one(),
                connection.execute(select(func.sqlite_version())).scalar_one(),
            )
        )
        return SQLiteFacts(
            path=path,
            version=tuple(int(part) for part in str(version).split(".")),
            journal_mode=str(mode).lower(),
        )

    def unchanged_rows_count(self) -> bool:
        """Whether an UPDATE that changes nothing counts the row that it matched.

        Every guard of ours reads that count. MySQL's own protocol counts changed rows only.
        """
        meta = self._database.tables.meta

        def unit(connection: Connection) -> int:
            same = update(meta).values(schema_version=meta.c.schema_version)
            return connection.execute(same.where(meta.c.id == 1)).rowcount

        return self._database.run(unit) == 1

    def clock_difference(self) -> float:
        """Seconds by which the database's clock is ahead of this process's."""

        def unit(connection: Connection) -> float:
            before = time_ns()
            theirs = connection.execute(select(self._database.now())).scalar_one()
            middle = (before + time_ns()) / 2000
            return (int(theirs) - middle) / 1_000_000

        return self._database.read(unit)

    def overdue(self, seconds: float) -> int:
        """Active jobs whose lease or deadline passed `seconds` ago, and nobody has looked."""
        jobs: Any = self._database.tables.jobs
        limit = self._database.now() - int(seconds * 1_000_000)
        owned = jobs.c.status.in_([str(status) for status in OWNED])
        waiting = jobs.c.status == str(JobStatus.QUEUED)
        late = or_(
            and_(owned, jobs.c.lease_until < limit),
            and_(waiting, jobs.c.claim_deadline < limit),
            and_(waiting, jobs.c.queue_deadline < limit),
        )
        statement = select(func.count().label("number")).select_from(jobs).where(late)
        return int(self._database.rows(statement)[0]["number"])
