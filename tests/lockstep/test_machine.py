"""The machine on SQLite, PostgreSQL and MariaDB at once, and on SQLite alone."""

from __future__ import annotations

import pytest

from tests.helpers.stores import Store
from tests.lockstep.stepping import Lockstep
from tests.lockstep.walking import walk, walk_of


@pytest.mark.postgresql
@pytest.mark.mariadb
def test_the_same_on_all_three(
    shared_sqlite: Store, shared_postgresql: Store, shared_mariadb: Store
) -> None:
    walk(walk_of(12), lambda: Lockstep([shared_sqlite, shared_postgresql, shared_mariadb]))


def test_on_one_alone(shared_sqlite: Store) -> None:
    """Without servers, and more often: the invariants need no second database."""
    walk(walk_of(30), lambda: Lockstep([shared_sqlite]))
