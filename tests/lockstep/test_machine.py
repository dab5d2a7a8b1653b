"""The machine on SQLite, PostgreSQL and MariaDB at once; and that it finds what is broken.

`JOBRUNNER_EXAMPLES=1000` walks as often, at random instead of always alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.helpers.stores import Store
from tests.lockstep.machine import Machine
from tests.lockstep.stepping import Lockstep

LONG = int(os.environ.get("JOBRUNNER_EXAMPLES", "0"))
WALK = settings(
    max_examples=LONG or 8,
    stateful_step_count=40,
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
# Of what is broken one example is enough, and nobody reads it.
HUNT = settings(WALK, max_examples=150, derandomize=True, phases=[Phase.generate])


def walk(how: settings, make: Callable[[], Lockstep]) -> None:
    class OnThese(Machine):
        steps = staticmethod(make)

    run_state_machine_as_test(OnThese, settings=how)


@pytest.mark.postgresql
@pytest.mark.mariadb
def test_the_same_on_all_three(
    shared_sqlite: Store, shared_postgresql: Store, shared_mariadb: Store
) -> None:
    walk(WALK, lambda: Lockstep([shared_sqlite, shared_postgresql, shared_mariadb]))


def test_on_one_alone(shared_sqlite: Store) -> None:
    """Without servers, and more often: the invariants need no second database."""
    walk(settings(WALK, max_examples=LONG or 12), lambda: Lockstep([shared_sqlite]))


# -- the machine has teeth --------------------------------------------------------------------

MUTANTS = [
    ("finish", "worker_token"),
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


@pytest.mark.parametrize(("deed", "column"), MUTANTS, ids=str)
def test_a_missing_clause_is_found(shared_sqlite: Store, deed: str, column: str) -> None:
    steps: list[Lockstep] = []

    def make() -> Lockstep:
        steps.append(Lockstep([shared_sqlite]))
        return steps[-1]

    with (
        without(shared_sqlite, steps, deed, column),
        pytest.raises((AssertionError, sa.exc.IntegrityError)),
    ):
        walk(HUNT, make)
