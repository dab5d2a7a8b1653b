"""Reads for screens and sweeps: pages by keyset, capped counts. Nothing here moves a job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, literal, or_, select, union_all

from flask_jobrunner.model.errors import InvalidPayload
from flask_jobrunner.model.records import Job, OwnedJob, Page
from flask_jobrunner.model.statuses import OWNED, JobStatus

from .database import Database
from .narrowing import (
    JobFilter,
    begins_with_id,
    by_status,
    conditions,
    contains,
    reads_by_status,
)
from .rows import select_jobs, span, to_job, to_owned

PAGE_MAX = 200
COUNT_CAP = 1000
ID_MAX = 2**63 - 1

__all__ = ["COUNT_CAP", "PAGE_MAX", "JobFilter", "ListingRepository", "read_cursor"]


class ListingRepository:
    """Newest first, by id: a cursor stays right whatever is added meanwhile."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, narrow: JobFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        """A page of jobs. `cursor` is a page's `next_cursor` or `previous_cursor`."""
        jobs, limit = self._database.tables.jobs, max(1, min(limit, PAGE_MAX))
        towards_newer, place = read_cursor(cursor)
        where = self._where(narrow)
        if place is not None:
            where.append(jobs.c.id > place if towards_newer else jobs.c.id < place)
        statement = select_jobs(self._database)
        if reads_by_status(narrow):
            picked = by_status(
                self._database, narrow.status, where, limit + 1, upwards=towards_newer
            )
            statement = statement.join(picked, jobs.c.id == picked.c.id)
        else:
            statement = statement.where(*where, *self._status(narrow))
        statement = statement.order_by(jobs.c.id.asc() if towards_newer else jobs.c.id.desc())
        rows = list(self._database.rows(statement.limit(limit + 1)))
        more, rows = len(rows) > limit, rows[:limit]
        found = [to_job(row) for row in (reversed(rows) if towards_newer else rows)]
        older = more or towards_newer
        newer = more if towards_newer else place is not None
        return Page(
            jobs=found,
            next_cursor=str(found[-1].id) if found and older else None,
            previous_cursor=f"n{found[0].id}" if found and newer else None,
        )

    def counts(self, narrow: JobFilter, cap: int = COUNT_CAP) -> dict[str, int]:
        """Jobs by status, each counted up to `cap` + 1: more than `cap` means "more than that".

        What `narrow` says of the status is left aside.
        """
        where = self._where(narrow)
        parts = [self._count(status, where, cap) for status in JobStatus]
        rows = self._database.read(lambda connection: connection.execute(union_all(*parts)).all())
        return {str(status): int(number) for status, number in rows}

    def floor(self, newest: int) -> int:
        """The id above which the newest jobs are, at most so many; 0 where that is all of them."""
        jobs = self._database.tables.jobs
        ends = select(func.max(jobs.c.id).label("last"), func.min(jobs.c.id).label("first"))
        row = self._database.rows(ends)[0]
        floor = (row["last"] or 0) - newest
        return floor if row["last"] and floor >= row["first"] else 0

    def _count(
        self, status: str, where: Sequence[ColumnElement[bool]], cap: int
    ) -> Select[*tuple[Any, ...]]:
        jobs = self._database.tables.jobs
        wanted = [*where, jobs.c.status == str(status)]
        some = select(jobs.c.id).where(*wanted).limit(cap + 1).subquery()
        return select(literal(str(status)).label("status"), func.count().label("n")).select_from(
            some
        )

    def sweepable_ids(self, after: int, limit: int = 200) -> list[tuple[int, str]]:
        """(id, uuid), in order of id, of jobs that a sweep may have to move.

        Owned ones, and those that waited past a deadline; never a long queue that is in order.
        """
        jobs, now = self._database.tables.jobs, self._database.now()
        owned = jobs.c.status.in_([str(status) for status in OWNED])
        overdue = or_(jobs.c.claim_deadline <= now, jobs.c.queue_deadline <= now)
        late = and_(jobs.c.status == str(JobStatus.QUEUED), overdue)
        statement = (
            select(jobs.c.id, jobs.c.job_uuid)
            .where(or_(owned, late), jobs.c.id > after)
            .order_by(jobs.c.id)
            .limit(limit)
        )
        return [(row["id"], row["job_uuid"]) for row in self._database.rows(statement)]

    def restartable(
        self, job_type: str, restarts_below: int, within: float, after: int
    ) -> list[Job]:
        """Pulled jobs that were interrupted in the last `within` seconds: a page in order of id,
        from behind `after`."""
        jobs = self._database.tables.jobs
        statement = select_jobs(self._database).where(
            jobs.c.job_type == job_type,
            jobs.c.status == str(JobStatus.INTERRUPTED),
            jobs.c.claim_mode == "trusted",
            jobs.c.restarts < restarts_below,
            jobs.c.id > after,
            jobs.c.finished_at > self._database.now() - span(within),
        )
        rows = self._database.rows(statement.order_by(jobs.c.id).limit(PAGE_MAX))
        return [to_job(row) for row in rows]

    def stranded(self, revisions: Collection[str], age: float) -> list[OwnedJob]:
        """Jobs that could have begun `age` seconds ago, made for none of these revisions, and
        that nobody is handing out."""
        jobs, now = self._database.tables.jobs, self._database.now()
        statement = select_jobs(self._database).where(
            jobs.c.status == str(JobStatus.QUEUED),
            jobs.c.claim_mode == "trusted",
            jobs.c.revision.is_not(None),
            jobs.c.revision.not_in(revisions),
            jobs.c.queued_at < now - span(age),
            or_(jobs.c.not_before.is_(None), jobs.c.not_before < now - span(age)),
            or_(jobs.c.dispatch_until.is_(None), jobs.c.dispatch_until <= now),
        )
        rows = self._database.rows(statement.order_by(jobs.c.id).limit(PAGE_MAX))
        return [to_owned(row) for row in rows]

    def _where(self, narrow: JobFilter) -> list[ColumnElement[bool]]:
        """Everything but the status."""
        if narrow.text is None:
            return conditions(self._database, narrow)
        jobs = self._database.tables.jobs
        ids = self._ids(narrow, narrow.text)
        if ids:
            return [jobs.c.id.in_(ids)]
        return [*conditions(self._database, narrow), contains(self._database, narrow.text)]

    def _ids(self, narrow: JobFilter, text: str) -> list[int]:
        """Jobs whose uuid begins with the text, however old they are."""
        like = begins_with_id(self._database, text)
        if like is None:
            return []
        jobs, everywhere = self._database.tables.jobs, replace(narrow, above=0)
        statement = select(jobs.c.id).where(*like, *conditions(self._database, everywhere))
        return [row["id"] for row in self._database.rows(statement.limit(PAGE_MAX))]

    def _status(self, narrow: JobFilter) -> list[ColumnElement[bool]]:
        if narrow.status is None:
            return []
        return [self._database.tables.jobs.c.status.in_([str(status) for status in narrow.status])]


def read_cursor(cursor: str | None) -> tuple[bool, int | None]:
    """(towards newer, id) of a cursor; raises `InvalidPayload` for what is not one of ours."""
    if cursor is None:
        return False, None
    digits = cursor.removeprefix("n")
    readable = digits.isascii() and digits.isdigit() and len(digits) <= len(str(ID_MAX))
    if not readable or int(digits) > ID_MAX:
        raise InvalidPayload(f"{cursor[:40]!r} is not a cursor that jobs.find gave out.")
    return cursor.startswith("n"), int(digits)
