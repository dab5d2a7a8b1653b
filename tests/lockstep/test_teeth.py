"""What is broken on purpose is found: a walk that finds nothing else may be too tame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.helpers.store_fixtures import made_once
from tests.helpers.stores import Store
from tests.lockstep.stepping import Lockstep
from tests.lockstep.walking import hunt

MUTANTS = [
    ("finish", "worker_token"),
    ("finish", "status"),
    ("finish", "log_seq"),
    ("mark_started", "handler_started_at"),
    ("mark_started", "status"),
    ("beat", "worker_token"),
    ("beat", "log_seq"),
    ("fail", "status"),
    ("fail", "attempt"),
    ("reserve", "dispatch_until"),
    ("sweep", "lease_until"),
    ("sweep", "row_version"),
]


@contextmanager
def without(store: Store, steps: list[Lockstep], deed: str, column: str) -> Iterator[None]:
    """While this deed is done, the UPDATEs of one store ask nothing about this column."""

    def leave_out(_connection: Any, statement: Any, many: Any, one: Any, _options: Any) -> Any:
        if isinstance(statement, sa.Update) and steps and steps[-1].deed == deed:
            kept = tuple(c for c in statement._where_criteria if not _names(c, column))
            statement = statement._generate()
            statement._where_criteria = kept
        return statement, many, one

    sa.event.listen(store.database.engine, "before_execute", leave_out, retval=True)
    try:
        yield
    finally:
        sa.event.remove(store.database.engine, "before_execute", leave_out)


def _names(clause: Any, column: str) -> bool:
    return any(
        isinstance(part, sa.Column) and part.name == column
        for part in sa.sql.visitors.iterate(clause)
    )


def hunt_on(steps: list[Lockstep], deed: str, *stores: Store) -> None:
    def make() -> Lockstep:
        steps.append(Lockstep(list(stores)))
        return steps[-1]

    hunt(deed, make)


@pytest.mark.parametrize(("deed", "column"), MUTANTS, ids=str)
def test_a_missing_clause_is_found(shared_sqlite: Store, deed: str, column: str) -> None:
    steps: list[Lockstep] = []
    with (
        without(shared_sqlite, steps, deed, column),
        pytest.raises((AssertionError, sa.exc.IntegrityError)),
    ):
        hunt_on(steps, deed, shared_sqlite)


def test_a_clause_that_is_missing_on_one_of_two_is_found(
    shared_sqlite: Store, tmp_path: Path
) -> None:
    """By comparing: the invariants look at the first one's rows, and those are right."""
    steps: list[Lockstep] = []
    with (
        made_once(f"sqlite:///{tmp_path / 'app.sqlite'}") as other,
        without(other, steps, "beat", "worker_token"),
        pytest.raises(AssertionError, match=r"beat (differs|stored something else) on sqlite"),
    ):
        hunt_on(steps, "beat", shared_sqlite, other)
