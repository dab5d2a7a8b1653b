"""Fixtures of the folders that test what is stored: a conftest there takes them over by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flask_jobrunner.repositories.database import Database
from tests.helpers.stores import Store, empty_tables, make_tables, open_store
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL

KINDS = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.postgresql),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
)


@pytest.fixture(scope="session")
def shared_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A database with our tables, for the whole run."""
    with made_once(f"sqlite:///{tmp_path_factory.mktemp('shared') / 'app.sqlite'}") as made:
        yield made


@pytest.fixture(scope="session")
def shared_postgresql(postgresql_server: PostgreSQL) -> Iterator[Store]:
    """The same on PostgreSQL."""
    with postgresql_server.fresh_database() as url, made_once(url) as made:
        yield made


@pytest.fixture(scope="session")
def shared_mariadb(mariadb_server: MariaDB) -> Iterator[Store]:
    """The same on MariaDB."""
    with mariadb_server.fresh_database() as url, made_once(url) as made:
        yield made


@contextmanager
def made_once(url: str) -> Iterator[Store]:
    """Connections that are kept: most of a small test's time would go into making them."""
    make_tables(url)
    made = open_store(url, keep=True)
    try:
        yield made
    finally:
        made.database.engine.dispose()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> Store:
    """The repositories on each kind of database, without any rows."""
    shared: Store = request.getfixturevalue(f"shared_{request.param}")
    found = Store(Database(shared.database.engine, shared.database.tables), shared.url)
    empty_tables(found)
    return found


@pytest.fixture
def store_url(store: Store) -> str:
    """The URL of a database of each kind that has our tables and no rows."""
    return store.url
