"""What a list is narrowed to, in conditions that the indexes of all databases can answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, Subquery, and_, or_, select, union_all

from flask_jobrunner.model.statuses import JobStatus

from .database import Database
from .new_row import hash_lock_key
from .rows import span

_ID = re.compile(r"([0-9a-f]{8}[0-9a-f-]{0,28})(?:(?:…|\.\.\.)([0-9a-f]{4}))?")
"""The beginning of a job's id, or both of its ends as lists show them."""
_SEARCHED = ("job_type", "title", "lock_key", "owner", "reference", "error_class")


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """What a page is narrowed to; None narrows nothing."""

    status: Sequence[str] | None = None
    job_type: str | None = None
    owner: str | None = None
    reference: str | None = None
    actor: str | None = None
    lock_key: str | None = None
    """Of jobs that hold the lock now."""
    finished_within: float | None = None
    """Seconds since its end, at most."""
    scope: str | None = None
    """The one owner whose jobs may be seen at all, whatever else is asked for."""
    had_lock: str | None = None
    """The lock key, also of jobs that have ended."""
    error_class: str | None = None
    text: str | None = None
    """Part of a type, title, lock key, owner, reference or error class, or the beginning of an
    id; capitals and small letters of ASCII are the same."""
    above: int = 0
    """Only jobs with a higher id: a bound where no index leads to what is asked for."""


def conditions(database: Database, narrow: JobFilter) -> list[ColumnElement[bool]]:
    """Everything but the status and the text."""
    jobs = database.tables.jobs
    where = [
        jobs.c[name] == value
        for name in ("job_type", "owner", "reference", "actor", "error_class")
        if (value := getattr(narrow, name)) is not None
    ]
    if narrow.scope is not None:
        where.append(is_exactly(jobs.c.owner, narrow.scope))
    if narrow.had_lock is not None:
        where.append(jobs.c.lock_key == narrow.had_lock)
    if narrow.lock_key is not None:
        # The hash is exact everywhere; it is there only while the lock is held.
        where.append(jobs.c.active_lock_key == hash_lock_key(narrow.lock_key))
    if narrow.finished_within is not None:
        where.append(jobs.c.finished_at > database.now() - span(narrow.finished_within))
    if narrow.above:
        where.append(jobs.c.id > narrow.above)
    return where


def is_exactly(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Whether a column has this very text: MariaDB takes "ann" and "ann " for equal, LIKE does not.

    The equality is what an index answers.
    """
    pattern = re.sub(r"([/%_])", r"/\1", text)
    return and_(column == text, column.like(pattern, escape="/"))


def contains(database: Database, text: str) -> ColumnElement[bool]:
    """Whether a job has the text in one of the columns that people search."""
    jobs = database.tables.jobs
    parts = [jobs.c[name].icontains(text, autoescape=True) for name in _SEARCHED]
    return or_(jobs.c.job_uuid.startswith(text.lower(), autoescape=True), *parts)


def begins_with_id(database: Database, text: str) -> list[ColumnElement[bool]] | None:
    """The conditions that lead to an id by its index; None where the text is not like one."""
    found = _ID.fullmatch(text.lower())
    if found is None:
        return None
    uuid, (head, tail) = database.tables.jobs.c.job_uuid, found.groups()
    # A range, as not every collation lets an index serve LIKE. "g" follows all that an id has.
    where = [uuid >= head, uuid < f"{head}g", uuid.startswith(head, autoescape=True)]
    return [*where, uuid.endswith(tail, autoescape=True)] if tail else where


def reads_by_status(narrow: JobFilter) -> bool:
    """Whether an index that has the status before the id is the way to the newest rows."""
    if narrow.reference is not None or narrow.had_lock is not None or narrow.lock_key is not None:
        return False
    leading = (narrow.job_type, narrow.owner, narrow.scope)
    many = narrow.status is not None and len(narrow.status) != 1
    return many or any(value is not None for value in leading)


def by_status(
    database: Database,
    statuses: Sequence[str] | None,
    where: Sequence[ColumnElement[bool]],
    limit: int,
    *,
    upwards: bool = False,
) -> Subquery:
    """Ids of the first `limit` jobs of each status, in one statement.

    The indexes on type and owner have the status before the id: asked for all statuses at once, a
    database would sort every row that a type or an owner ever had.
    """
    jobs = database.tables.jobs
    parts: list[Select[*tuple[Any, ...]]] = []
    for status in JobStatus if statuses is None else statuses or [""]:
        order = jobs.c.id.asc() if upwards else jobs.c.id.desc()
        part = select(jobs.c.id).where(jobs.c.status == str(status), *where)
        # SQLite takes an ORDER BY inside a UNION only one level further down.
        parts.append(select(part.order_by(order).limit(limit).subquery().c.id))
    return union_all(*parts).subquery("picked")
