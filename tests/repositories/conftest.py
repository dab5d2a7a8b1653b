"""`store` and `store_url`: each of the three databases, with our tables and no rows."""

from __future__ import annotations

import pytest

from tests.helpers.store_fixtures import (
    shared_mariadb,
    shared_postgresql,
    shared_sqlite,
    store,
    store_url,
)
from tests.helpers.stores import Store, make_tables, open_store

__all__ = ["shared_mariadb", "shared_postgresql", "shared_sqlite", "store", "store_url"]

SERVERS = [
    pytest.param("postgresql", marks=pytest.mark.postgresql),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]


@pytest.fixture(params=SERVERS)
def server_store(request: pytest.FixtureRequest) -> Store:
    """A store on a database server, whose connections a test may lose."""
    shared: Store = request.getfixturevalue(f"shared_{request.param}")
    found = open_store(shared.url)
    for table in reversed(found.database.tables.all()):
        statement = table.delete()
        found.database.run(lambda connection, s=statement: connection.execute(s))  # type: ignore[misc]
    return found


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Store:
    make_tables(sqlite_url)
    return open_store(sqlite_url)
