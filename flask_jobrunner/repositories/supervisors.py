"""Who runs `flask jobs work` now, and what waits for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

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
FORGOTTEN_AFTER = 3600.0
"""Seconds of silence after which anybody removes a supervisor's row."""


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
    draining: bool = False
    """Whether it was asked to take no jobs, where its row is made anew."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Pulled jobs of one type and revision that may be handed out and were not yet."""

    job_type: str
    revision: str | None
    number: int
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """How many supervisors live, and whether anything waits for one, by the database's clock."""

    alive: int
    waits: bool
    now: datetime


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
            drain_requested_at=now if new.draining else None,
            **identity_values(new.process, "worker"),
        )
        self._database.run(lambda connection: connection.execute(statement))

    def beat(self, uuid: str, *, draining: bool = False) -> bool | None:
        """Renew, and say whether it is asked to take no jobs. None when the row is gone.

        `draining` is what it knows already: as long as that is so, this is one UPDATE.
        """
        table: Any = self._database.tables.supervisors
        asked = table.c.drain_requested_at

        def unit(connection: Connection) -> bool | None:
            for guess in (draining, not draining):
                statement = update(table).where(
                    table.c.supervisor_uuid == uuid,
                    asked.is_not(None) if guess else asked.is_(None),
                )
                renewed = connection.execute(statement.values(heartbeat_at=self._database.now()))
                if renewed.rowcount == 1:
                    return guess
            return None

        return self._database.run(unit)

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
        jobs = self._database.tables.jobs
        some = select(jobs.c.job_type, jobs.c.revision, jobs.c.queued_at)
        part = some.where(*self._waits(owner)).limit(WAITING_CAP).subquery()
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

    def pulse(self, silence: float, owner: str | None = None) -> Pulse:
        """What the frame of every page tells, in one statement; see `alive` and `waiting`."""
        table, jobs = self._database.tables.supervisors, self._database.tables.jobs
        now = self._database.now()
        alive = select(func.count()).where(
            table.c.heartbeat_at >= now - round(silence * MICROSECONDS)
        )
        first = select(jobs.c.id).where(*self._waits(owner)).limit(1).subquery()
        waits = select(func.count()).select_from(first)
        statement = select(
            now.label("now_us"),
            alive.scalar_subquery().label("alive"),
            waits.scalar_subquery().label("waits"),
        )
        (row,) = self._database.rows(statement)
        return Pulse(
            alive=int(row["alive"]), waits=bool(row["waits"]), now=as_known_time(int(row["now_us"]))
        )

    def _waits(self, owner: str | None) -> list[ColumnElement[bool]]:
        """Pulled, due, and in nobody's slot."""
        jobs, now = self._database.tables.jobs, self._database.now()
        found = [
            jobs.c.claim_mode == "trusted",
            jobs.c.status == str(JobStatus.QUEUED),
            or_(jobs.c.not_before.is_(None), jobs.c.not_before <= now),
            or_(jobs.c.dispatch_until.is_(None), jobs.c.dispatch_until <= now),
        ]
        return found if owner is None else [*found, is_exactly(jobs.c.owner, owner)]


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
