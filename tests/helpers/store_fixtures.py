"""Fixtures of the folders that test what is stored: a conftest there takes them over by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner.repositories.database import Database
from flask_jobrunner.runtime import Runtime
from tests import host_app
from tests.helpers.hosts import end_processes, host_environment
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


@pytest.fixture
def runtime_config() -> dict[str, Any]:
    """The configuration of `runtime`; a test, class or module may override it."""
    return {}


@pytest.fixture
def runtime(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runtime_config: dict[str, Any],
) -> Iterator[Runtime]:
    """The host application's runtime on each kind of database, in its app context."""
    environment = host_environment(monkeypatch, store.url, tmp_path, **runtime_config)
    app = host_app.create_app()
    with app.app_context():
        found: Runtime = app.extensions["jobrunner"]
        # Connections that are kept, as `store` does; a test of connections makes its own.
        found.__dict__["database"] = store.database
        yield found
        host_app.db.session.remove()
        for engine in host_app.db.engines.values():
            engine.dispose()
    end_processes(environment.mark)
