"""What the tables themselves refuse, and that their names stay as they are."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from flask_jobrunner.config import load_config
from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.model.statuses import ACTIVE, TERMINAL, JobStatus
from flask_jobrunner.repositories.listing import JobFilter
from flask_jobrunner.repositories.new_row import hash_lock_key
from flask_jobrunner.repositories.tables import build_tables
from tests.helpers.stores import (
    Store,
    change,
    empty_tables,
    everything,
    host_engine,
    make_tables,
    new_job,
    open_store,
    queue,
    row,
)

CONVENTION = {
    "ix": "host_ix_%(column_0_label)s",
    "uq": "host_uq_%(table_name)s_%(column_0_name)s",
    "ck": "host_ck_%(table_name)s_%(constraint_name)s",
    "fk": "host_fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "host_pk_%(table_name)s",
}

# (status, lock_key set, active_lock_key set, finished_at set) -> whether the CHECKs take it.
SHAPES = [
    (str(status), lock, active, finished, _good)
    for status in JobStatus
    for lock in (False, True)
    for active in (False, True)
    for finished in (False, True)
    for _good in [
        finished == (status not in ACTIVE)
        and (status == "lost" or (lock == active if status in ACTIVE else not active))
    ]
]


def assert_refused(store: Store, job_id: int, **values: Any) -> None:
    before = everything(store)
    with pytest.raises(DBAPIError):
        change(store, job_id, **values)
    assert everything(store) == before


def test_every_shape_of_lock_and_finish(store: Store) -> None:
    job = queue(store)
    for status, lock, active, finished, good in SHAPES:
        values = {
            "status": status,
            "lock_key": "k" if lock else None,
            "active_lock_key": hash_lock_key("k") if active else None,
            "finished_at": 1 if finished else None,
        }
        if good:
            change(store, job.id, **values)
        else:
            assert_refused(store, job.id, **values)


@pytest.mark.parametrize("status", ["", "Queued", "QUEUED", "done", "queuedx", "unknown"])
def test_a_status_that_is_none(store: Store, status: str) -> None:
    job = queue(store)
    assert_refused(store, job.id, status=status)


@pytest.mark.parametrize("mode", ["", "TOKEN", "inline", None])
def test_a_claim_mode_that_is_none(store: Store, mode: str | None) -> None:
    assert_refused(store, queue(store).id, claim_mode=mode)


@pytest.mark.parametrize(
    "column",
    [
        "job_uuid",
        "job_type",
        "status",
        "attempt",
        "row_version",
        "log_seq",
        "created_at",
        "priority",
    ],
)
def test_what_may_not_be_missing(store: Store, column: str) -> None:
    assert_refused(store, queue(store).id, **{column: None})


def test_one_active_row_for_a_lock_key(store: Store) -> None:
    first = queue(store, lock_key="k")
    second = queue(store, lock_key="other")
    assert_refused(store, second.id, lock_key="k", active_lock_key=hash_lock_key("k"))

    change(store, first.id, status="failed", finished_at=1, active_lock_key=None)
    change(store, second.id, lock_key="k", active_lock_key=hash_lock_key("k"))


@pytest.mark.parametrize(
    "keys",
    [
        ("A", "a", "A ", " A", "a ", "\u00c1", "A\u0301", "A\t"),
        ("caf\u00e9", "cafe\u0301", "cafe", "CAFE"),
        ("stra\u00dfe", "strasse", "STRASSE"),
        ("\U0001f600", "\U0001f601"),
    ],
)
def test_keys_that_look_alike_are_different_keys(store: Store, keys: tuple[str, ...]) -> None:
    made = [queue(store, lock_key=key) for key in keys]
    for job, key in zip(made, keys, strict=True):
        holder = store.jobs.holder(key)
        assert holder is not None
        assert (holder.job.id, holder.job.lock_key) == (job.id, key)
        assert store.jobs.add(new_job(lock_key=key)) is None


def test_what_belongs_to_somebody_is_compared_exactly(store: Store) -> None:
    """Ann must not be shown what is ann's, whatever the database thinks of case."""
    job = queue(store, owner="ann", reference="import:a", actor="ann", job_type="a.b")
    for name, value in {"owner": "ann", "reference": "import:a", "actor": "ann"}.items():
        narrow: dict[str, Any] = {name: value}
        found = store.listing.find(JobFilter(**narrow)).jobs
        assert [one.id for one in found] == [job.id]
        for other in (value.upper(), value.capitalize()):
            narrow[name] = other
            assert store.listing.find(JobFilter(**narrow)).jobs == []
    assert store.listing.find(JobFilter(job_type="A.B")).jobs == []


def test_a_row_of_log_has_its_own_number(store: Store) -> None:
    job, logs = queue(store), store.database.tables.logs
    line = {
        "job_id": job.id,
        "attempt": 1,
        "created_at": 1,
        "level": "",
        "stream": "",
        "message": "",
    }
    add = sa.insert(logs)
    store.database.run(lambda c: c.execute(add, [{**line, "seq": 1}, {**line, "seq": 2}]))
    with pytest.raises(DBAPIError):
        store.database.run(lambda c: c.execute(add, [{**line, "seq": 3}, {**line, "seq": 2}]))
    assert len(store.logs.after(job.id, 0, 10)) == 2


def test_children_have_a_job(store: Store) -> None:
    events = store.database.tables.events
    with pytest.raises(DBAPIError):
        store.database.run(
            lambda c: c.execute(sa.insert(events).values(job_id=999, action="x", at=1))
        )


def test_meta_has_one_row(store: Store) -> None:
    store.meta.ensure()
    add = sa.insert(store.database.tables.meta)
    for number in (1, 2):
        with pytest.raises(DBAPIError):
            store.database.run(
                lambda c, number=number: c.execute(  # type: ignore[misc]
                    add.values(id=number, schema_version=1, fingerprint="x", created_at=1)
                )
            )


def test_a_file_is_input_or_output(store: Store) -> None:
    job, files = queue(store), store.database.tables.files
    values = {"job_id": job.id, "attempt": 1, "name": "a", "created_at": 1}
    store.database.run(lambda c: c.execute(sa.insert(files).values(kind="input", **values)))
    with pytest.raises(DBAPIError):
        store.database.run(lambda c: c.execute(sa.insert(files).values(kind="other", **values)))


def names(metadata: sa.MetaData) -> set[str]:
    tables = metadata.tables.values()
    constraints = {
        str(constraint.name)
        for table in tables
        for constraint in table.constraints
        if isinstance(constraint, (sa.CheckConstraint, sa.UniqueConstraint))
    }
    return set(metadata.tables) | constraints | {str(i.name) for t in tables for i in t.indexes}


def test_a_naming_convention_of_the_host_changes_nothing() -> None:
    plain, named = sa.MetaData(), sa.MetaData(naming_convention=CONVENTION)
    build_tables(plain, "jobrun_")
    build_tables(named, "jobrun_")
    assert names(named) == names(plain)
    assert all(re.match(r"((uq|ck|ix)_)?jobrun_", name) for name in names(named))


def test_no_name_is_longer_than_any_database_takes() -> None:
    metadata = sa.MetaData(naming_convention=CONVENTION)
    build_tables(metadata, "p" * 32)
    assert max(map(len, names(metadata))) <= 63
    load_config({"JOBRUNNER_TABLE_PREFIX": "p" * 32})
    with pytest.raises(ConfigError, match="JOBRUNNER_TABLE_PREFIX"):
        load_config({"JOBRUNNER_TABLE_PREFIX": "p" * 33})


def test_a_second_build_is_the_same_and_prefixes_are_apart() -> None:
    metadata = sa.MetaData()
    first, again = build_tables(metadata, "jobrun_"), build_tables(metadata, "jobrun_")
    assert all(a is b for a, b in zip(first.all(), again.all(), strict=True))
    other = build_tables(metadata, "other_")
    assert {table.name for table in other.all()} & {table.name for table in first.all()} == set()


def test_tables_under_a_convention_and_another_prefix_work(database_url: str) -> None:
    metadata = sa.MetaData(naming_convention=CONVENTION)
    tables = build_tables(metadata, "host_jobs_")
    metadata.create_all(host_engine(database_url))
    store = open_store(database_url)
    store.database.tables = tables
    job = queue(store, lock_key="k")
    assert store.jobs.add(new_job(lock_key="k")) is None
    assert row(store, job.id)["status"] == "queued"
    assert store.meta.differences() == []


@pytest.mark.postgresql
def test_tables_in_a_schema_of_the_host(postgresql_url: str) -> None:
    metadata = sa.MetaData(schema="shop")
    tables = build_tables(metadata, "jobrun_")
    assert build_tables(metadata, "jobrun_").jobs is tables.jobs
    with host_engine(postgresql_url).begin() as connection:
        connection.execute(sa.text("CREATE SCHEMA shop"))
        metadata.create_all(connection)
    store = open_store(postgresql_url)
    store.database.tables = tables
    assert store.meta.differences() == []
    store.meta.ensure()
    queue(store)


@pytest.mark.mariadb
def test_any_character_is_stored_where_the_database_has_another_set(
    mariadb_server: Any, mariadb_url: str
) -> None:
    name = sa.make_url(mariadb_url).database
    with host_engine(mariadb_url).begin() as connection:
        connection.execute(sa.text(f"ALTER DATABASE {name} CHARACTER SET latin1"))
    make_tables(mariadb_url)
    store = open_store(mariadb_url)
    job = queue(store, title="grün 😀 語", lock_key="😀", owner="語", revision="😀", base_url="é")
    assert job.title == "grün 😀 語"
    assert row(store, job.id)["lock_key"] == "😀"
    empty_tables(store)


def test_terminal_and_active_are_all_there_is() -> None:
    assert set(JobStatus) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL
