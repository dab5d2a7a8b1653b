"""Who runs `flask jobs work` now, and what waits for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import RowMapping, and_, delete, func, insert, or_, select, update

from flask_jobrunner.model.records import Identity, OwnedJob, Supervisor
from flask_jobrunner.model.statuses import OWNED, JobStatus

from .database import Database
from .narrowing import is_exactly
from .rows import (
    MICROSECONDS,
    as_known_time,
    as_time,
    identity_values,
    select_jobs,
    to_identity,
    to_owned,
)

WAITING_CAP = 10_000


@dataclass(frozen=True, kw_only=True)
class NewSupervisor:
    """What a row is made from."""

    uuid: str
    process: Identity
    types: tuple[str, ...]
    slots: int
    standby: int
    revision: str | None
    version: str


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Pulled jobs of one type and revision that may be handed out and were not yet."""

    job_type: str
    revision: str | None
    number: int
    since: datetime


class SupervisorRepository:
    """One row each, made at its start, renewed while it lives, removed at its end."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: NewSupervisor) -> None:
        """Register."""
        table, now = self._database.tables.supervisors, self._database.now()
        statement = insert(table).values(
            supervisor_uuid=new.uuid,
            types_json=json.dumps(new.types) if new.types else None,
            slots=new.slots,
            standby=new.standby,
            revision=new.revision,
            version=new.version[:64],
            started_at=now,
            heartbeat_at=now,
            **identity_values(new.process, "worker"),
        )
        self._database.run(lambda connection: connection.execute(statement))

    def beat(self, uuid: str) -> bool:
        """Renew; False when the row is gone."""
        return self._set(uuid, "heartbeat_at")

    def drains(self, uuid: str) -> bool:
        """Say that it takes no more jobs."""
        return self._set(uuid, "drain_requested_at")

    def forget_revision(self, uuid: str) -> bool:
        """Say that it takes only what is made for no revision."""
        table = self._database.tables.supervisors
        statement = update(table).where(table.c.supervisor_uuid == uuid).values(revision=None)
        return self._database.run(lambda connection: connection.execute(statement).rowcount) == 1

    def remove(self, uuids: Sequence[str]) -> None:
        """Take rows away."""
        table = self._database.tables.supervisors
        statement = delete(table).where(table.c.supervisor_uuid.in_(uuids))
        self._database.run(lambda connection: connection.execute(statement))

    def all(self) -> list[Supervisor]:
        """Every row, oldest first."""
        table = self._database.tables.supervisors
        statement = select(table, self._database.now().label("now_us")).order_by(table.c.id)
        return [_to_supervisor(row) for row in self._database.rows(statement)]

    def alive(self, silence: float) -> list[Supervisor]:
        """Those that have given a sign of life within the last `silence` seconds."""
        return [one for one in self.all() if one.silent_for <= silence]

    def running(self, uuids: Sequence[str]) -> dict[str, list[OwnedJob]]:
        """The jobs in these supervisors' slots, oldest first: reserved or running."""
        jobs, found = self._database.tables.jobs, dict[str, list[OwnedJob]]()
        if not uuids:
            return found
        reserved = and_(
            jobs.c.status == str(JobStatus.QUEUED), jobs.c.dispatch_until > self._database.now()
        )
        statement = select_jobs(self._database).where(
            or_(jobs.c.status.in_([str(status) for status in OWNED]), reserved),
            jobs.c.dispatch_by.in_(uuids),
        )
        for row in self._database.rows(statement.order_by(jobs.c.id)):
            found.setdefault(row["dispatch_by"], []).append(to_owned(row))
        return found

    def waiting(self, owner: str | None = None) -> list[Waiting]:
        """What waits, by type and revision, oldest first; counted up to `WAITING_CAP` jobs.

        `owner` None: everybody's.
        """
        jobs, now = self._database.tables.jobs, self._database.now()
        some = select(jobs.c.job_type, jobs.c.revision, jobs.c.queued_at).where(
            jobs.c.claim_mode == "trusted",
            jobs.c.status == str(JobStatus.QUEUED),
            or_(jobs.c.not_before.is_(None), jobs.c.not_before <= now),
            or_(jobs.c.dispatch_until.is_(None), jobs.c.dispatch_until <= now),
        )
        if owner is not None:
            some = some.where(is_exactly(jobs.c.owner, owner))
        part = some.limit(WAITING_CAP).subquery()
        first = func.min(part.c.queued_at).label("since")
        statement = (
            select(part.c.job_type, part.c.revision, func.count().label("number"), first)
            .group_by(part.c.job_type, part.c.revision)
            .order_by(first)
        )
        return [
            Waiting(
                job_type=row["job_type"],
                revision=row["revision"],
                number=int(row["number"]),
                since=as_known_time(row["since"]),
            )
            for row in self._database.rows(statement)
        ]

    def _set(self, uuid: str, column: str) -> bool:
        table, now = self._database.tables.supervisors, self._database.now()
        statement = update(table).where(table.c.supervisor_uuid == uuid).values(**{column: now})
        return self._database.run(lambda connection: connection.execute(statement).rowcount) == 1


def _to_supervisor(row: RowMapping) -> Supervisor:
    return Supervisor(
        uuid=row["supervisor_uuid"],
        process=to_identity(row, "worker"),
        types=tuple(json.loads(row["types_json"] or "[]")),
        slots=row["slots"],
        standby=row["standby"],
        revision=row["revision"],
        version=row["version"],
        started_at=as_known_time(row["started_at"]),
        heartbeat_at=as_known_time(row["heartbeat_at"]),
        drain_requested_at=as_time(row["drain_requested_at"]),
        silent_for=max(0.0, (int(row["now_us"]) - row["heartbeat_at"]) / MICROSECONDS),
    )
