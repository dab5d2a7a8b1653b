"""Reading the log. Lines are written by the owner's beats (`ownership`) and by endings."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Select, func, select

from flask_jobrunner.model.records import Event, LogLine
from flask_jobrunner.model.statuses import TERMINAL

from .database import Database
from .line_filter import Found, LineFilter
from .rows import add_event, to_event, to_line

SLICE_MAX = 1000
SEARCH_PAGE = 5000
"""Lines that one statement of a search looks through."""
SEARCH_SECONDS = 1.0
"""How long a search goes on; somebody waits for the page."""
_FETCHED_AT_LEAST = 100


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

    def first(self, job_id: int) -> int:
        """The number of the oldest line that is still kept; 0 when there is none."""
        logs = self._database.tables.logs
        oldest = select(func.min(logs.c.seq).label("seq")).where(logs.c.job_id == job_id)
        return self._database.rows(oldest)[0]["seq"] or 0

    def texts(self, job_id: int, seq: int, until: int, limit: int) -> list[tuple[int, str]]:
        """Number and text of the lines after `seq` up to `until`: all that a copy of it needs."""
        logs = self._database.tables.logs
        statement = (
            select(logs.c.seq, logs.c.message)
            .where(logs.c.job_id == job_id, logs.c.seq > seq, logs.c.seq <= until)
            .order_by(logs.c.seq)
            .limit(max(1, min(limit, SLICE_MAX)))
        )
        return [(row["seq"], row["message"]) for row in self._database.rows(statement)]

    def search(
        self,
        job_id: int,
        wanted: LineFilter,
        *,
        after: int,
        until: int,
        limit: int,
        backwards: bool = False,
        seconds: float = SEARCH_SECONDS,
    ) -> Found:
        """Up to `limit` wanted lines after `after` up to `until`, the oldest, or the newest.

        It looks through a page of lines at a time, at least one, until its time is over:
        `Found.left` then says where to go on. Lines come oldest first.
        """
        kept = self.first(job_id)
        low, high = (max(after, kept - 1), until) if kept else (until, until)
        lines: list[LogLine] = []
        deadline, begun = monotonic() + seconds, False
        while low < high and len(lines) < limit:
            if begun and monotonic() >= deadline:
                return Found(lines=lines[::-1] if backwards else lines, left=(low, high))
            begun = True
            if backwards:
                ends = max(low, high - SEARCH_PAGE), high
            else:
                ends = low, min(high, low + SEARCH_PAGE)
            fetch = max(_FETCHED_AT_LEAST, min(limit - len(lines), SLICE_MAX))
            rows = self._lines(self._candidates(job_id, wanted, ends, backwards=backwards), fetch)
            lines += [line for line in rows if wanted.matches(line)]
            all_seen = len(rows) < fetch
            if backwards:
                high = ends[0] if all_seen else rows[-1].seq - 1
            else:
                low = ends[1] if all_seen else rows[-1].seq
        lines = lines[:limit]
        return Found(lines=lines[::-1] if backwards else lines)

    def _candidates(
        self, job_id: int, wanted: LineFilter, ends: tuple[int, int], *, backwards: bool
    ) -> Select[Any]:
        logs = self._database.tables.logs
        inside = self._of(job_id).where(logs.c.seq > ends[0], logs.c.seq <= ends[1])
        order = logs.c.seq.desc() if backwards else logs.c.seq
        return inside.where(*wanted.conditions(logs)).order_by(order)

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
