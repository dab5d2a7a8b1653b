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

# What is done without which clause, and who else acts: few, so that it is found soon.
#
# Not here, for nothing is lost without it: the attempt beside a token, as no two attempts have one
# token; and status, attempt and token in a sweep's write: what changes them raises the version.
MUTANTS = [
    ("finish", "worker_token", "hire"),
    ("finish", "status", "give_up"),
    ("finish", "log_seq", "beat"),
    ("mark_started", "handler_started_at", "hire"),
    ("mark_started", "status", "give_up"),
    ("beat", "worker_token", "hire"),
    ("beat", "log_seq", "hire"),
    ("fail", "status", "hire"),
    ("fail", "attempt", "add"),
    ("requeue", "status", "give_up"),
    ("requeue", "attempt", "give_up"),
    ("reserve", "dispatch_until", "look_out"),
    ("sweep", "lease_until", "beat"),
    ("sweep", "row_version", "stop_itself mark_started"),
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


def hunt_on(steps: list[Lockstep], deeds: str, *stores: Store) -> None:
    def make() -> Lockstep:
        steps.append(Lockstep(list(stores)))
        return steps[-1]

    hunt(set(deeds.split()), make)


@pytest.mark.parametrize(("deed", "column", "others"), MUTANTS)
def test_a_missing_clause_is_found(
    shared_sqlite: Store, deed: str, column: str, others: str
) -> None:
    steps: list[Lockstep] = []
    with (
        without(shared_sqlite, steps, deed, column),
        pytest.raises((AssertionError, sa.exc.IntegrityError)),
    ):
        hunt_on(steps, f"{deed} {others}", shared_sqlite)


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
        hunt_on(steps, "beat hire", shared_sqlite, other)
