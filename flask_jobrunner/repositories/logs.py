"""Reading the log. Lines are written by the owner's beats (`ownership`) and by endings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, select

from flask_jobrunner.model.records import Event, LogLine
from flask_jobrunner.model.statuses import TERMINAL

from .database import Database
from .rows import add_event, to_event, to_line

SLICE_MAX = 1000


class LogRepository:
    """Lines of one job by sequence number, which has no gaps and starts at 1."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def after(self, job_id: int, seq: int, limit: int) -> list[LogLine]:
        """The lines after `seq`, oldest first."""
        logs = self._database.tables.logs
        return self._lines(self._of(job_id).where(logs.c.seq > seq).order_by(logs.c.seq), limit)

    def newest(self, job_id: int, limit: int) -> list[LogLine]:
        """The newest lines, oldest of them first."""
        logs = self._database.tables.logs
        return self._lines(self._of(job_id).order_by(logs.c.seq.desc()), limit)[::-1]

    def before(self, job_id: int, seq: int, limit: int) -> list[LogLine]:
        """The lines right before `seq`, oldest first."""
        logs = self._database.tables.logs
        statement = self._of(job_id).where(logs.c.seq < seq).order_by(logs.c.seq.desc())
        return self._lines(statement, limit)[::-1]

    def _of(self, job_id: int) -> Select[Any]:
        logs = self._database.tables.logs
        return select(logs).where(logs.c.job_id == job_id)

    def _lines(self, statement: Select[Any], limit: int) -> list[LogLine]:
        rows: Sequence[Any] = self._database.rows(statement.limit(max(1, min(limit, SLICE_MAX))))
        return [to_line(row) for row in rows]


class EventRepository:
    """What happened to a job, in order."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, job_id: int, limit: int = 500) -> list[Event]:
        """The job's events, oldest first; of a very long history the newest `limit`."""
        events = self._database.tables.events
        statement = select(events).where(events.c.job_id == job_id).order_by(events.c.id.desc())
        return [to_event(row) for row in self._database.rows(statement.limit(limit))][::-1]

    def add(
        self, job_id: int, attempt: int, action: str, actor: str | None, reason: str | None = None
    ) -> None:
        """Append a deed that moves nothing."""

        def unit(connection: Connection) -> None:
            add_event(
                connection,
                self._database,
                job_id=job_id,
                action=action,
                attempt=attempt,
                actor=actor,
                reason=reason,
            )

        self._database.run(unit)

    def was_claimed(self, job_id: int, attempt: int) -> bool:
        """Whether this very attempt was claimed, whatever the row says by now."""
        events = self._database.tables.events
        statement = select(events.c.id).where(
            events.c.job_id == job_id, events.c.attempt == attempt, events.c.action == "claim"
        )
        return bool(self._database.rows(statement.limit(1)))

    def end_of(self, job_id: int, attempt: int) -> Event | None:
        """The event that ended this attempt, if it has ended."""
        events = self._database.tables.events
        statement = select(events).where(
            events.c.job_id == job_id,
            events.c.attempt == attempt,
            events.c.to_status.in_([str(status) for status in TERMINAL]),
        )
        rows = self._database.rows(statement.order_by(events.c.id.desc()).limit(1))
        return to_event(rows[0]) if rows else None
