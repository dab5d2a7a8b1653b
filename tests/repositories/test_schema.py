"""The row of the meta table, and finding what a live schema lacks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.errors import SchemaError
from flask_jobrunner.repositories.schema import MetaRepository
from flask_jobrunner.repositories.tables import SCHEMA_VERSION, build_tables
from tests.helpers.stores import Store, host_engine, open_store, queue


def test_meta_is_made_once_and_kept(store: Store) -> None:
    assert store.meta.check() is None
    first = store.meta.ensure()
    assert first.schema_version == SCHEMA_VERSION
    assert len(bytes.fromhex(first.fingerprint)) == 16
    assert store.meta.ensure() is first
    assert MetaRepository(store.database).ensure() == first


def test_meta_is_made_once_by_many(store: Store) -> None:
    many = [MetaRepository(store.database) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda meta: meta.ensure().fingerprint, many))
    assert len(set(found)) == 1


def test_another_version_is_refused(store: Store) -> None:
    store.meta.ensure()
    newer = sa.update(store.database.tables.meta).values(schema_version=SCHEMA_VERSION + 1)
    store.database.run(lambda connection: connection.execute(newer))
    with pytest.raises(SchemaError, match=f"version {SCHEMA_VERSION + 1}.*flask db upgrade"):
        MetaRepository(store.database).ensure()


def test_missing_tables_are_named_with_what_to_do(database_url: str) -> None:
    store = open_store(database_url)
    for ask in (store.meta.ensure, store.meta.check):
        with pytest.raises(SchemaError, match=r"missing: run `flask db migrate`"):
            ask()
    assert len(store.meta.differences()) == 7
    assert "table jobrun_jobs is missing" in store.meta.differences()


def test_whoever_reads_or_writes_without_tables_is_told_the_same(database_url: str) -> None:
    store = open_store(database_url)
    table = store.database.tables.jobs
    with pytest.raises(SchemaError, match="missing: run `flask db migrate`"):
        store.database.rows(sa.select(table.c.id))
    with pytest.raises(SchemaError, match="missing: run `flask db migrate`"):
        store.database.run(lambda connection: connection.execute(sa.delete(table)))


def test_a_complete_schema_has_no_differences(store: Store) -> None:
    assert store.meta.differences() == []


def test_differences_are_found(database_url: str) -> None:
    """Tables as an older version, or somebody's hand, might have left them."""
    metadata = sa.MetaData()
    tables = build_tables(metadata, "jobrun_")
    jobs = tables.jobs
    jobs._columns.remove(jobs.c.restarts)
    for constraint in list(jobs.constraints):
        if str(constraint.name) in {"uq_jobrun_jobs_active_lock", "ck_jobrun_jobs_finished"}:
            jobs.constraints.remove(constraint)
        elif (
            isinstance(constraint, sa.CheckConstraint)
            and constraint.name == "ck_jobrun_jobs_status"
        ):
            constraint.sqltext = sa.text(str(constraint.sqltext).replace("'lost'", "'vanished'"))
    for index in list(jobs.indexes):
        if index.name == "ix_jobrun_jobs_owner":
            jobs.indexes.remove(index)
    metadata.remove(tables.files)
    metadata.create_all(host_engine(database_url))

    found = open_store(database_url).meta.differences()

    assert sorted(found) == [
        "check ck_jobrun_jobs_finished is missing",
        "check ck_jobrun_jobs_status allows other values than this version needs",
        "column jobrun_jobs.restarts is missing",
        "index ix_jobrun_jobs_owner is missing",
        "table jobrun_files is missing",
        "unique constraint uq_jobrun_jobs_active_lock is missing",
    ]


def test_what_is_more_than_needed_is_no_difference(database_url: str) -> None:
    metadata = sa.MetaData()
    tables = build_tables(metadata, "jobrun_")
    tables.jobs.append_column(sa.Column("host_note", sa.String(20)))
    sa.Index("ix_host_note", tables.jobs.c.host_note)
    metadata.create_all(host_engine(database_url))
    store = open_store(database_url)
    assert store.meta.differences() == []
    assert queue(store).status == "queued"
