"""Attempts, and the parent's report on how each one's process ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from flask_jobrunner.model.records import Attempt, NewLine
from flask_jobrunner.model.statuses import OWNED

from .database import Database
from .rows import add_lines, line_counters, to_attempt


class _AlreadyRecorded(Exception):
    """Rolls the unit back: somebody recorded this report before."""


class AttemptRepository:
    """One row an attempt: made at the claim, closed by what ends it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, job_id: int) -> list[Attempt]:
        """The job's attempts, first one first."""
        attempts = self._database.tables.attempts
        statement = select(attempts).where(attempts.c.job_id == job_id)
        rows = self._database.rows(statement.order_by(attempts.c.attempt))
        return [to_attempt(row) for row in rows]

    def is_reported(self, job_id: int, attempt: int) -> bool:
        """Whether the end of this attempt's process was already recorded."""
        attempts = self._database.tables.attempts
        statement = select(attempts.c.id).where(
            attempts.c.job_id == job_id,
            attempts.c.attempt == attempt,
            attempts.c.reported_at.is_not(None),
        )
        return bool(self._database.rows(statement))

    def add_report(
        self,
        job_id: int,
        attempt: int,
        token: str,
        report: Mapping[str, Any],
        lines: Sequence[NewLine],
    ) -> bool:
        """Add the report and the last lines to an attempt that has ended, once.

        True when it is recorded, now or before. False, and nothing is written, where there are
        lines and the job has an owner: that one counts the lines, and would take itself for
        fenced if others came between.
        """

        def unit(connection: Connection) -> bool:
            # The job row first: see `fenced` for the order.
            if lines and not self._make_room(connection, job_id, lines):
                return False
            if not self._record(connection, job_id, attempt, token, report):
                raise _AlreadyRecorded
            self._add_lines(connection, job_id, attempt, lines)
            return True

        try:
            return self._database.run(unit)
        except _AlreadyRecorded:
            return True

    def _make_room(self, connection: Connection, job_id: int, lines: Sequence[NewLine]) -> bool:
        jobs = self._database.tables.jobs
        unowned = jobs.c.status.not_in([str(status) for status in OWNED])
        return (
            connection.execute(
                update(jobs)
                .where(jobs.c.id == job_id, unowned)
                .values(row_version=jobs.c.row_version + 1, **line_counters(jobs, lines))
            ).rowcount
            == 1
        )

    def _record(
        self,
        connection: Connection,
        job_id: int,
        attempt: int,
        token: str,
        report: Mapping[str, Any],
    ) -> bool:
        attempts = self._database.tables.attempts
        return (
            connection.execute(
                update(attempts)
                .where(
                    attempts.c.job_id == job_id,
                    attempts.c.attempt == attempt,
                    attempts.c.worker_token == token,
                    attempts.c.reported_at.is_(None),
                )
                .values(reported_at=self._database.now(), **report)
            ).rowcount
            == 1
        )

    def _add_lines(
        self, connection: Connection, job_id: int, attempt: int, lines: Sequence[NewLine]
    ) -> None:
        if not lines:
            return
        jobs = self._database.tables.jobs
        seq = connection.execute(select(jobs.c.log_seq).where(jobs.c.id == job_id)).scalar_one()
        add_lines(
            connection,
            self._database,
            job_id=job_id,
            attempt=attempt,
            after_seq=int(seq) - len(lines),
            lines=lines,
        )
