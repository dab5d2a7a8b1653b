"""Handing out what waits: which job is next, and the compare-and-set that reserves it.

The row stays `queued`: only the claim of the process that was given the credential moves it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select, update

from flask_jobrunner.model.records import Identity, type_fits
from flask_jobrunner.model.statuses import OWNED, POISON_DEATHS, JobStatus, Reason
from flask_jobrunner.protocol.fault_points import fault_point

from .database import MISSING, Database
from .rows import add_event, ended, same, span, to_identity

PAGE = 100
# As fnmatch reads it: what looks like a set of characters and never ends is none.
_WILD = re.compile(r"\[!?+(?:\][^]]*+|[^]]++)\]|.", re.DOTALL)
_LIKE = {"*": "%", "?": "_", "%": "!%", "_": "!_", "!": "!!"}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a supervisor takes: types by pattern (none: all), and its revision."""

    types: tuple[str, ...] = ()
    revision: str | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A job that may be handed out; whether it still may, `reserve` decides."""

    id: int
    uuid: str
    attempt: int
    job_type: str
    revision: str | None
    priority: int
    created_at: int


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """A pulled job that runs: who runs it, and who started that process."""

    uuid: str
    worker: Identity
    parent: Identity


class DispatchRepository:
    """Order: priority, highest first; then age. Rows that cannot be taken hide none behind them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def candidates(self, wanted: Wanted) -> Iterator[Candidate]:
        """What may be handed out, in order, read page by page."""
        # One priority at a time: an index gives its rows in order, and no index does for all.
        priority = self._next_priority(wanted, None)
        while priority is not None:
            yield from self._of_priority(wanted, priority)
            priority = self._next_priority(wanted, priority)

    def reserve(
        self,
        candidate: Candidate,
        *,
        supervisor: str,
        credential_hash: str,
        claim_window: float,
        early: bool = False,
    ) -> bool:
        """Put a fresh credential on the row for `claim_window` seconds. False: somebody else did,
        or the job moved on. `early` does not wait for the job's `not_before`.
        """
        jobs, database = self._database.tables.jobs, self._database

        def unit(connection: Connection) -> bool:
            now = database.now()
            result = connection.execute(
                update(jobs)
                .where(
                    jobs.c.id == candidate.id,
                    jobs.c.attempt == candidate.attempt,
                    same(jobs.c.revision, candidate.revision),
                    *self._free(now, early=early),
                )
                .values(
                    worker_token_hash=credential_hash,
                    dispatch_by=supervisor,
                    dispatch_until=now + span(claim_window),
                    launched_at=now,
                    updated_at=now,
                    row_version=jobs.c.row_version + 1,
                )
            )
            fault_point("work.before")
            return result.rowcount == 1

        reserved = database.run(
            unit,
            read_back=lambda connection: self._reserved(connection, candidate, credential_hash),
        )
        fault_point("work.dispatched")
        return reserved

    def give_back(
        self,
        job_id: int,
        attempt: int,
        credential_hash: str,
        *,
        died: bool,
        message: str,
        evidence: Mapping[str, Any] | None = None,
    ) -> Literal["queued", "failed"] | None:
        """Take the reservation back that holds this credential, whose process claimed nothing.

        `died` counts towards poison: the last of `POISON_DEATHS` fails the job with `message`.
        None: the reservation was not there any more.
        """
        jobs, database = self._database.tables.jobs, self._database
        mine = [
            jobs.c.id == job_id,
            jobs.c.attempt == attempt,
            jobs.c.status == str(JobStatus.QUEUED),
        ]

        def unit(connection: Connection) -> Literal["queued", "failed"] | None:
            reserved = jobs.c.worker_token_hash == credential_hash
            freed = update(jobs).where(*mine, reserved)
            values = {
                "worker_token_hash": None,
                "dispatch_by": None,
                "dispatch_until": None,
                "launched_at": None,
                "unstarted_deaths": jobs.c.unstarted_deaths + int(died),
                "row_version": jobs.c.row_version + 1,
                "updated_at": database.now(),
            }
            if connection.execute(freed.values(**values)).rowcount != 1:
                return None
            over = ended(database, JobStatus.FAILED) | {
                "error_reason_code": str(Reason.POISON),
                "error_message": message,
            }
            poison = update(jobs).where(*mine, jobs.c.unstarted_deaths >= POISON_DEATHS)
            if not died or connection.execute(poison.values(**over)).rowcount != 1:
                return "queued"
            add_event(
                connection,
                database,
                job_id=job_id,
                action="fail",
                attempt=attempt,
                from_status=JobStatus.QUEUED,
                to_status=JobStatus.FAILED,
                reason=Reason.POISON,
                evidence=evidence,
            )
            return "failed"

        return database.run(unit)

    def running_on(self, host: str) -> list[Pulled]:
        """The pulled jobs that run on this host, by whichever supervisor."""
        jobs = self._database.tables.jobs
        columns = [c for c in jobs.c if c.name.startswith(("worker_", "parent_"))]
        statement = select(jobs.c.job_uuid, *columns).where(
            jobs.c.claim_mode == "trusted",
            jobs.c.status.in_([str(status) for status in OWNED]),
            jobs.c.worker_host == host,
        )
        return [
            Pulled(
                uuid=row["job_uuid"],
                worker=to_identity(row, "worker"),
                parent=to_identity(row, "parent"),
            )
            for row in self._database.rows(statement)
        ]

    def _next_priority(self, wanted: Wanted, below: int | None) -> int | None:
        jobs = self._database.tables.jobs
        statement = select(jobs.c.priority).where(*self._eligible(wanted))
        if below is not None:
            statement = statement.where(jobs.c.priority < below)
        rows = self._database.rows(statement.order_by(jobs.c.priority.desc()).limit(1))
        return int(rows[0]["priority"]) if rows else None

    def _of_priority(self, wanted: Wanted, priority: int) -> Iterator[Candidate]:
        jobs = self._database.tables.jobs
        last: Candidate | None = None
        while True:
            statement = self._page(wanted).where(jobs.c.priority == priority)
            if last is not None:
                later = jobs.c.created_at > last.created_at
                beside = and_(jobs.c.created_at == last.created_at, jobs.c.id > last.id)
                statement = statement.where(or_(later, beside))
            rows = self._database.rows(statement.order_by(jobs.c.created_at, jobs.c.id).limit(PAGE))
            for row in rows:
                last = Candidate(uuid=row["job_uuid"], **{name: row[name] for name in _DIRECT})
                if type_fits(last.job_type, wanted.types):
                    yield last
            if len(rows) < PAGE:
                return

    def _page(self, wanted: Wanted) -> Select[Any]:
        jobs = self._database.tables.jobs
        columns = [jobs.c[name] for name in _DIRECT]
        return select(jobs.c.job_uuid, *columns).where(*self._eligible(wanted))

    def _eligible(self, wanted: Wanted) -> list[ColumnElement[bool]]:
        jobs = self._database.tables.jobs
        where, revision = self._free(self._database.now()), jobs.c.revision
        unpinned = revision.is_(None)
        mine = unpinned if wanted.revision is None else or_(unpinned, revision == wanted.revision)
        where.append(mine)
        if wanted.types:
            like = [jobs.c.job_type.like(as_like(one), escape="!") for one in wanted.types]
            where.append(or_(*like))
        return where

    def _free(self, now: ColumnElement[int], *, early: bool = False) -> list[ColumnElement[bool]]:
        jobs = self._database.tables.jobs
        may_begin = [] if early else [or_(jobs.c.not_before.is_(None), jobs.c.not_before <= now)]
        return [
            jobs.c.claim_mode == "trusted",
            jobs.c.status == str(JobStatus.QUEUED),
            or_(jobs.c.dispatch_until.is_(None), jobs.c.dispatch_until <= now),
            *may_begin,
            or_(jobs.c.queue_deadline.is_(None), jobs.c.queue_deadline > now),
        ]

    def _reserved(
        self, connection: Connection, candidate: Candidate, credential_hash: str
    ) -> object:
        jobs = self._database.tables.jobs
        found = select(jobs.c.id).where(
            jobs.c.id == candidate.id, jobs.c.worker_token_hash == credential_hash
        )
        return True if connection.execute(found).first() else MISSING


_DIRECT = ("id", "attempt", "job_type", "revision", "priority", "created_at")


def as_like(pattern: str) -> str:
    """A LIKE that lets through all that the pattern does, and maybe more."""
    parts = _WILD.findall(pattern)
    return "".join("_" if len(part) > 1 else _LIKE.get(part, part) for part in parts)
