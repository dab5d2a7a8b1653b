"""What SQLite needs of us: WAL, units that begin as writers, waiting, and clocks."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.errors import DatabaseFull
from flask_jobrunner.repositories.database import Database
from flask_jobrunner.repositories.listing import JobFilter
from tests.helpers.stores import (
    Store,
    change,
    claim,
    host_engine,
    lines,
    make_tables,
    messages,
    open_store,
    queue,
    row,
)

# -- SQLite -----------------------------------------------------------------------------------


def test_sqlite_connections_are_set_up(sqlite_store: Store) -> None:
    def read(connection: sa.Connection) -> list[Any]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]

    assert sqlite_store.database.read(read) == ["wal", 2, 1, 5000]


def test_a_write_unit_that_reads_first_never_meets_a_stale_snapshot(sqlite_store: Store) -> None:
    """With a deferred BEGIN most of these fail at once, whatever the busy timeout."""
    job = queue(sqlite_store)
    jobs = sqlite_store.database.tables.jobs
    errors: list[Exception] = []

    def unit(connection: sa.Connection) -> None:
        now = connection.execute(sa.select(jobs.c.log_bytes)).scalar_one()
        connection.execute(sa.update(jobs).where(jobs.c.id == job.id).values(log_bytes=now + 1))

    def work(_number: int) -> None:
        try:
            for _ in range(15):
                with sqlite_store.database.engine.begin() as connection:  # no retries here
                    unit(connection)
        except Exception as error:
            errors.append(error)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert errors == []
    assert row(sqlite_store, job.id)["log_bytes"] == 60


def test_a_file_that_may_not_grow_keeps_its_lines_waiting(sqlite_store: Store) -> None:
    """The library's own answer to a full disk; nothing is lost once there is room."""
    won, limit = claim(sqlite_store), ["1"]
    engine = sqlite_store.database.engine
    sa.event.listen(
        engine, "connect", lambda raw, _: raw.execute(f"PRAGMA max_page_count = {limit[0]}")
    )
    written = lines(*("x" * 16_000 for _ in range(20)))
    with pytest.raises(DatabaseFull):
        sqlite_store.ownership.beat(won.fence, lines=written, last_seq=0)
    limit[0] = "1000000"
    engine.dispose()
    assert sqlite_store.ownership.beat(won.fence, lines=written, last_seq=0) is not None
    assert len(messages(sqlite_store, won.fence.job_id)) == 20


def test_readers_go_on_beside_a_writer_and_a_writer_beside_readers(sqlite_store: Store) -> None:
    job = queue(sqlite_store)
    jobs = sqlite_store.database.tables.jobs
    with sqlite_store.database.engine.begin() as writer:
        writer.execute(sa.update(jobs).values(title="not yet"))
        # A reader that waited for the writer would meet the end of the busy time instead.
        assert row(sqlite_store, job.id)["title"] is None

    def slow_reader(connection: sa.Connection) -> str | None:
        connection.execute(sa.select(jobs)).all()
        change(sqlite_store, job.id, title="written meanwhile")
        title: str | None = connection.execute(sa.select(jobs.c.title)).scalar_one()
        return title

    assert sqlite_store.database.read(slow_reader) == "not yet"
    assert row(sqlite_store, job.id)["title"] == "written meanwhile"


def test_a_host_that_writes_in_the_old_journal_mode_is_waited_for(tmp_path: Path) -> None:
    """The very first connection of ours meets a host in the middle of its transaction."""
    path = tmp_path / "app.sqlite"
    url = f"sqlite:///{path}"
    make_tables(url)
    host = sqlite3.connect(path, isolation_level=None)
    host.execute("CREATE TABLE entries (name TEXT)")
    host.execute("PRAGMA journal_mode = DELETE")
    host.execute("BEGIN IMMEDIATE")
    host.execute("INSERT INTO entries VALUES ('a')")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(queue, open_store(url))
        assert open_store(url).listing.find(JobFilter()).jobs == []
        host.execute("COMMIT")
        host.close()
        assert waiting.result(timeout=10).status == "queued"


@pytest.mark.parametrize(
    ("url", "in_memory"),
    [
        ("sqlite://", True),
        ("sqlite:///:memory:", True),
        ("sqlite:///file::memory:?uri=true", True),
        ("sqlite:///file:shared?mode=memory&cache=shared&uri=true", True),
        ("sqlite:////tmp/memory.sqlite", False),
        ("sqlite:///file:/tmp/app.sqlite?mode=rw&uri=true", False),
        ("postgresql+psycopg://u@h/db", False),
    ],
)
def test_a_database_in_memory_is_recognised(url: str, in_memory: bool) -> None:
    tables = make_tables("sqlite://")
    assert Database(host_engine(url), tables).in_memory == in_memory
