"""How the newest runs of a type went: a bounded number of narrow rows, never a whole table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from flask_jobrunner.model.runs import Run
from flask_jobrunner.model.statuses import ACTIVE, JobStatus

from .database import Database
from .narrowing import JobFilter, by_status, conditions
from .rows import as_known_time

ENDED = [str(status) for status in JobStatus if status not in ACTIVE]
_COLUMNS = (
    "job_type",
    "status",
    "queued_at",
    "started_at",
    "finished_at",
    "error_class",
    "error_reason_code",
)


class HistoryRepository:
    """Reads for figures about job types."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(
        self, narrow: JobFilter, limit: int, statuses: Sequence[str] | None = None
    ) -> list[Run]:
        """The newest jobs that have ended, newest first."""
        jobs = self._database.tables.jobs
        where = conditions(self._database, narrow)
        ids = by_status(self._database, statuses or ENDED, where, limit)
        first = select(ids.c.id).order_by(ids.c.id.desc()).limit(limit).subquery("newest")
        statement = (
            select(*(jobs.c[name] for name in _COLUMNS))
            .join(first, jobs.c.id == first.c.id)
            .order_by(jobs.c.id.desc())
        )
        return [
            Run(
                job_type=row["job_type"],
                status=row["status"],
                finished_at=as_known_time(row["finished_at"]),
                waited=_seconds(row["queued_at"], row["started_at"]),
                ran=_seconds(row["started_at"], row["finished_at"]),
                error_class=row["error_class"],
                error_reason_code=row["error_reason_code"],
            )
            for row in self._database.rows(statement)
        ]


def _seconds(start: int | None, end: int | None) -> float | None:
    """Clocks of two hosts may disagree: never less than nothing."""
    return None if start is None or end is None else max(0, end - start) / 1_000_000
