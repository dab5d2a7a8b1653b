"""The guard of every write of an owner: job, token, attempt and an owned status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, update

from flask_jobrunner.model.records import BeatAnswer, Fence, OwnedJob, Progress
from flask_jobrunner.model.statuses import OWNED

from .database import Database
from .rows import select_jobs, to_owned

_OWNED = [str(status) for status in OWNED]


class FencedRows:
    """What the repositories of owners share. Order in a transaction: job, attempt, event, logs;
    anything else deadlocks on InnoDB.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def _fence(self, fence: Fence) -> list[ColumnElement[bool]]:
        jobs = self._database.tables.jobs
        return [
            jobs.c.id == fence.job_id,
            jobs.c.worker_token == fence.token,
            jobs.c.attempt == fence.attempt,
            jobs.c.status.in_(_OWNED),
        ]

    def _write(
        self,
        connection: Connection,
        fence: Fence,
        values: Mapping[str, Any],
        *guard: ColumnElement[bool],
        version: bool = True,
    ) -> bool:
        jobs, all_values = self._database.tables.jobs, dict(values)
        if version:
            # Beats leave the version alone: a reader's compare-and-set would never get through.
            all_values |= {
                "row_version": jobs.c.row_version + 1,
                "updated_at": self._database.now(),
            }
        result = connection.execute(
            update(jobs).where(*self._fence(fence), *guard).values(**all_values)
        )
        return result.rowcount == 1

    def _answer(
        self, connection: Connection, fence: Fence, *guard: ColumnElement[bool]
    ) -> BeatAnswer | None:
        jobs = self._database.tables.jobs
        row = connection.execute(
            select(jobs.c.status, jobs.c.stop_reason).where(*self._fence(fence), *guard)
        ).first()
        return None if row is None else BeatAnswer(status=row[0], stop_reason=row[1])

    def _row(self, connection: Connection, job_id: int) -> OwnedJob:
        statement = select_jobs(self._database).where(self._database.tables.jobs.c.id == job_id)
        return to_owned(connection.execute(statement).mappings().one())


def progress_values(progress: Progress | None) -> dict[str, Any]:
    if progress is None:
        return {}
    return {
        "current_step_key": progress.step_key,
        "current_step_label": progress.step_label,
        "step_index": progress.step_index,
        "step_total": progress.step_total,
        "progress_done": progress.done,
        "progress_total": progress.total,
    }
