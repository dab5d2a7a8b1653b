"""Units on a connection that is the host's: savepoints, and nothing of the host's is touched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from flask_jobrunner.repositories.borrowed import SharedDatabase
from flask_jobrunner.repositories.database import Database, own_engine
from flask_jobrunner.repositories.jobs import JobRepository
from flask_jobrunner.repositories.tables import Tables
from tests.helpers.stores import Store, host_engine, new_job

HOSTS = sa.Table("hosts_own", sa.MetaData(), sa.Column("name", sa.String(20), primary_key=True))


class Rig:
    """A host's connection in the middle of a transaction, and our database on it."""

    def __init__(self, connection: sa.Connection, tables: Tables) -> None:
        self.connection = connection
        self.database = SharedDatabase(
            lambda: connection, lambda engine: own_engine(engine, {}), lambda: None, tables
        )
        self.jobs = JobRepository(self.database)

    def names(self) -> list[str]:
        """What the host's transaction sees of its own."""
        return list(self.connection.scalars(sa.select(HOSTS.c.name)))


@pytest.fixture
def rig(store: Store) -> Iterator[Rig]:
    """With one row of the host's that is not committed."""
    engine = host_engine(store.url)
    HOSTS.create(engine)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.connection.dbapi_connection.isolation_level = None  # type: ignore[union-attr]
            connection.exec_driver_sql("BEGIN")
        connection.execute(HOSTS.insert().values(name="mine"))
        yield Rig(connection, store.database.tables)
    HOSTS.drop(engine)


def test_what_is_written_is_seen_by_the_transaction_and_goes_with_it(
    rig: Rig, store: Store
) -> None:
    job = rig.jobs.add(new_job())
    assert job is not None
    assert rig.jobs.get(job.uuid) == job
    assert rig.names() == ["mine"]
    rig.connection.rollback()

    assert store.jobs.get(job.uuid) is None


def test_what_the_host_commits_is_committed(rig: Rig, store: Store) -> None:
    job = rig.jobs.add(new_job())
    rig.connection.commit()

    assert job is not None
    assert store.jobs.get(job.uuid) is not None


def test_a_unit_that_fails_is_undone_alone(rig: Rig) -> None:
    def unit(connection: sa.Connection) -> None:
        connection.execute(HOSTS.insert().values(name="other"))
        connection.execute(HOSTS.insert().values(name="mine"))

    with pytest.raises(IntegrityError):
        rig.database.run(unit)
    assert rig.names() == ["mine"]
    assert rig.jobs.add(new_job(lock_key="k")) is not None
    assert rig.jobs.add(new_job(lock_key="k")) is None


def test_a_read_that_fails_leaves_the_transaction_usable(rig: Rig) -> None:
    with pytest.raises(DBAPIError):
        rig.database.read(lambda connection: connection.exec_driver_sql("SELECT no_such_column"))
    assert rig.names() == ["mine"]


def test_units_may_be_nested(rig: Rig) -> None:
    def unit(connection: sa.Connection) -> None:
        connection.execute(HOSTS.insert().values(name="outer"))
        assert rig.jobs.add(new_job()) is not None
        raise LookupError

    with pytest.raises(LookupError):
        rig.database.run(unit)
    assert rig.names() == ["mine"]


def test_the_connection_is_not_ours_to_close(rig: Rig) -> None:
    rig.database.engine.dispose()
    rig.database.engine.connect().close()
    assert rig.names() == ["mine"]


def test_an_engine_with_connections_of_its_own_gets_ours_beside_it(store: Store) -> None:
    host = host_engine(store.url)
    database = SharedDatabase(
        lambda: host, lambda engine: own_engine(engine, {}), lambda: None, store.database.tables
    )
    job = JobRepository(database).add(new_job())

    assert job is not None
    assert database.shared is None
    assert database.engine is database.engine
    assert (database.dialect, database.file) == (store.database.dialect, store.database.file)
    assert store.jobs.get(job.uuid) is not None
    assert Database(host, store.database.tables).shared is None
