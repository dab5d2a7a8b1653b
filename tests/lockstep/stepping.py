"""The same call on several databases under one clock: one answer, one content."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from flask_jobrunner.repositories.database import Database
from flask_jobrunner.repositories.retention import RetentionRepository
from tests.helpers.stores import Store, empty_tables
from tests.lockstep.invariants import Content, check_change, check_content

START = 1_800_000_000_000_000
Call = Callable[[Store], Any]
# Each database counts its own ids.
_IDS = frozenset({"id", "job_id", "attempt_id"})


class Lockstep:
    """Stores without rows. `at` is what every clock says, in microseconds."""

    def __init__(self, shared: list[Store]) -> None:
        self.stores = [_with_clock(store, lambda: self.at) for store in shared]
        self.at = START
        self.deed = ""
        """What is being done, for those who listen to the statements."""
        for store in self.stores:
            empty_tables(store)
        self.content: Content = _read(self.stores[0])

    def do(self, deed: str, call: Call) -> list[Any]:
        """Call on each store, later than all before.

        The answers are alike, so is what is stored; it holds together.
        """
        before, self.deed = self.content, deed
        self.at += 1
        try:
            answers = [call(store) for store in self.stores]
        finally:
            self.deed = ""
        told = [_visible(answer) for answer in answers]
        contents = [_read(store) for store in self.stores]
        for store, one, content in zip(self.stores, told, contents, strict=True):
            assert one == told[0], f"{deed} differs on {store.kind}"
            assert content == contents[0], f"{deed} stored something else on {store.kind}"
        self.content = contents[0]
        check_content(self.content)
        check_change(before, self.content)
        return answers

    def changed_by(self, deed: str, call: Call) -> tuple[Any, bool]:
        """The first store's answer, and whether anything was written."""
        before = self.content
        answers = self.do(deed, call)
        return answers[0], self.content != before

    def row(self, uuid: str) -> dict[str, Any] | None:
        """The job as it is stored now."""
        return next((job for job in self.content["jobs"] if job["job_uuid"] == uuid), None)


def job_id(store: Store, uuid: str) -> int:
    """This store's id of the job; 0 where it is gone."""
    found = store.jobs.get(uuid)
    return 0 if found is None else found.id


def retention(store: Store) -> RetentionRepository:
    return RetentionRepository(store.database)


class _OneClock(Database):
    """A database whose clock, too, is the machine's."""

    def now(self) -> sa.ColumnElement[int]:
        return sa.literal(self.clock(), sa.BigInteger())


def _with_clock(shared: Store, clock: Callable[[], int]) -> Store:
    return Store(_OneClock(shared.database.engine, shared.database.tables, clock), shared.url)


def _visible(answer: Any) -> Any:
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        names = [field.name for field in dataclasses.fields(answer) if field.name not in _IDS]
        return {name: _visible(getattr(answer, name)) for name in names}
    if isinstance(answer, (list, tuple)):
        return [_visible(one) for one in answer]
    if isinstance(answer, dict):
        return {key: _visible(one) for key, one in answer.items()}
    return answer


def _read(store: Store) -> Content:
    """All rows in the order in which they were made; jobs are named by uuid."""
    tables = store.database.tables
    wanted = {
        "jobs": tables.jobs,
        "attempts": tables.attempts,
        "events": tables.events,
        "logs": tables.logs,
    }

    def unit(connection: sa.Connection) -> Content:
        return {
            name: [
                dict(row)
                for row in connection.execute(sa.select(table).order_by(table.c.id)).mappings()
            ]
            for name, table in wanted.items()
        }

    found = store.database.read(unit)
    uuids = {job["id"]: job["job_uuid"] for job in found["jobs"]}
    for rows in found.values():
        for row in rows:
            del row["id"]
            if "job_id" in row:
                row["job"] = uuids.get(row.pop("job_id"))
    return found
