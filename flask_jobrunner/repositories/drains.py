"""Who asked which supervisor to take no more jobs, and who let it go on.

These rows stay when the supervisor's own is gone, for as long as ended jobs are kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from flask_jobrunner.model.records import Identity

from .database import Database
from .rows import add_event, as_known_time

EVENTS_AT_ONCE = 500
SupervisorAction = Literal["drain", "resume", "shutdown"]


@dataclass(frozen=True, kw_only=True)
class SupervisorEvent:
    """What a supervisor was told last; `shutdown` it was told by a signal."""

    action: SupervisorAction
    actor: str | None
    at: datetime


class DrainRepository:
    """Each deed is one UPDATE of the supervisor's row, and an event beside it that has no job.

    The event's reason is the supervisor's uuid.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def drain(self, uuid: str, process: Identity, actor: str | None) -> bool:
        """Ask it to take no more jobs. False: it was asked already, or is gone."""
        return self._ask(uuid, process, "drain", actor)

    def resume(self, uuid: str, process: Identity, actor: str | None) -> bool:
        """Let it take jobs again. False: it does, or is gone."""
        return self._ask(uuid, process, "resume", actor)

    def stops(self, uuid: str, process: Identity) -> bool:
        """Say that it is about to end, whatever it was asked before. False: it is gone."""
        table = self._database.tables.supervisors

        def unit(connection: Connection) -> bool:
            asked = func.coalesce(table.c.drain_requested_at, self._database.now())
            statement = update(table).where(table.c.supervisor_uuid == uuid)
            changed = connection.execute(statement.values(drain_requested_at=asked))
            return self._noted(connection, changed.rowcount, uuid, process, "shutdown", None)

        return self._database.run(unit)

    def newest(self, uuids: Collection[str]) -> dict[str, SupervisorEvent]:
        """What each of these supervisors was told last."""
        events, found = self._database.tables.events, dict[str, SupervisorEvent]()
        statement = (
            select(events.c.action, events.c.actor, events.c.at, events.c.reason)
            .where(events.c.job_id.is_(None), events.c.reason.in_(uuids))
            .order_by(events.c.id.desc())
        )
        for row in self._database.rows(statement) if uuids else ():
            told = SupervisorEvent(
                action=row["action"], actor=row["actor"], at=as_known_time(row["at"])
            )
            found.setdefault(row["reason"], told)
        return found

    def amount(self, age: float) -> int:
        """How many events are older than `age` seconds, of supervisors that are gone."""
        number = select(func.count().label("number")).where(*self._old(age))
        return int(self._database.rows(number)[0]["number"])

    def forget(self, age: float, limit: int = EVENTS_AT_ONCE) -> int:
        """Remove those, at most `limit`, and say how many that were."""
        events = self._database.tables.events

        def unit(connection: Connection) -> int:
            # By their keys: a limit of its own is not for every database's DELETE.
            old = select(events.c.id).where(*self._old(age)).order_by(events.c.id).limit(limit)
            ids = list(connection.execute(old).scalars())
            if not ids:
                return 0
            return connection.execute(delete(events).where(events.c.id.in_(ids))).rowcount

        return self._database.run(unit)

    def _old(self, age: float) -> list[ColumnElement[bool]]:
        """What a supervisor that lives was told last stays: its page says so."""
        events, alive = self._database.tables.events, self._database.tables.supervisors
        known = select(alive.c.supervisor_uuid).where(alive.c.supervisor_uuid == events.c.reason)
        return [
            events.c.job_id.is_(None),
            events.c.at < self._database.now() - int(age * 1_000_000),
            ~known.exists(),
        ]

    def _ask(
        self, uuid: str, process: Identity, action: SupervisorAction, actor: str | None
    ) -> bool:
        table: Any = self._database.tables.supervisors
        drains = action == "drain"

        def unit(connection: Connection) -> bool:
            asked = table.c.drain_requested_at
            statement = update(table).where(
                table.c.supervisor_uuid == uuid,
                asked.is_(None) if drains else asked.is_not(None),
            )
            now = self._database.now() if drains else None
            changed = connection.execute(statement.values(drain_requested_at=now))
            return self._noted(connection, changed.rowcount, uuid, process, action, actor)

        return self._database.run(unit)

    def _noted(
        self,
        connection: Connection,
        changed: int,
        uuid: str,
        process: Identity,
        action: SupervisorAction,
        actor: str | None,
    ) -> bool:
        if changed == 1:
            # Host and pid, too: the supervisor's own row goes with it, and this one stays.
            add_event(
                connection,
                self._database,
                job_id=None,
                attempt=None,
                action=action,
                actor=actor,
                reason=uuid,
                evidence={"host": process.host, "pid": process.pid},
            )
        return changed == 1
