"""Our connections: isolation, time limits, and what a network can do to a commit."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa

from flask_jobrunner.model.errors import LockBusy
from flask_jobrunner.model.records import Outcome
from flask_jobrunner.repositories import database as module
from flask_jobrunner.repositories.database import Database, own_engine
from tests.helpers.stores import (
    Store,
    assert_sound,
    change,
    host_engine,
    lines,
    make_tables,
    open_store,
    queue,
    row,
    start,
)

# -- locks ------------------------------------------------------------------------------------


@pytest.fixture
def short_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same store, with the shortest lock timeout that every database takes."""
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 1.0)
    return open_store(store.url)


@pytest.mark.parametrize("second", [False, True])
def test_a_row_that_somebody_holds_is_lock_busy_and_no_half_unit(
    store: Store, short_waits: Store, second: bool
) -> None:
    """MySQL and MariaDB undo only the statement that waited: the unit is rolled back by us."""
    first, other = queue(store), queue(store)
    jobs = store.database.tables.jobs

    def unit(connection: sa.Connection) -> None:
        for job in (first, other) if second else (other,):
            connection.execute(sa.update(jobs).where(jobs.c.id == job.id).values(title="changed"))

    with store.database.engine.begin() as holder:
        holder.execute(sa.update(jobs).where(jobs.c.id == other.id).values(title="held"))
        with pytest.raises(LockBusy):
            short_waits.database.run(unit)
    assert row(store, first.id)["title"] is None
    assert row(store, other.id)["title"] == "held"
    short_waits.database.run(unit)
    assert row(store, other.id)["title"] == "changed"


def test_a_real_deadlock_is_resolved(server_store: Store) -> None:
    """Two units that lock two rows in opposite order: one is undone by the server, and repeated."""
    one, two = queue(server_store), queue(server_store)
    jobs, both = server_store.database.tables.jobs, threading.Barrier(2, timeout=10)
    tries = []

    def unit(order: tuple[int, int]) -> None:
        first = True

        def work(connection: sa.Connection) -> None:
            nonlocal first
            tries.append(order)
            for place, job_id in enumerate(order):
                if place == 1 and first:
                    first = False
                    both.wait()
                connection.execute(
                    sa.update(jobs)
                    .where(jobs.c.id == job_id)
                    .values(row_version=jobs.c.row_version + 1)
                )

        server_store.database.run(work)

    with ThreadPoolExecutor(2) as threads:
        for done in [
            threads.submit(unit, (one.id, two.id)),
            threads.submit(unit, (two.id, one.id)),
        ]:
            done.result()
    assert len(tries) > 2
    assert row(server_store, one.id)["row_version"] == 3
    assert row(server_store, two.id)["row_version"] == 3


def test_a_stopped_process_gives_its_locks_back(
    server_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was stopped in the middle of a unit: the server ends its transaction."""
    monkeypatch.setattr(module, "IDLE_LIMIT", 1)
    job, stopped = queue(server_store), open_store(server_store.url)
    jobs = server_store.database.tables.jobs
    with stopped.database.engine.connect() as connection:
        connection.begin()
        connection.execute(sa.update(jobs).where(jobs.c.id == job.id).values(title="stopped"))
        change(server_store, job.id, title="went on")
        with pytest.raises(sa.exc.DBAPIError):
            connection.execute(sa.select(jobs.c.id))
    assert row(server_store, job.id)["title"] == "went on"


# -- isolation: whatever the host does with its own engine ------------------------------------


def isolation_of(database: Database) -> str:
    query = (
        "SHOW transaction_isolation"
        if database.dialect == "postgresql"
        else "SELECT @@session.tx_isolation"
    )
    told = database.run(lambda connection: connection.exec_driver_sql(query).scalar_one())
    return str(told).upper().replace("-", " ")


@pytest.mark.parametrize("level", ["SERIALIZABLE", "REPEATABLE READ", "AUTOCOMMIT"])
@pytest.mark.parametrize("keep", [False, True])
def test_ours_is_read_committed_whatever_the_host_s_engine_is(
    server_store: Store, level: str, keep: bool
) -> None:
    host = host_engine(server_store.url, isolation_level=level)
    ours = own_engine(host, {"isolation_level": level}, keep=keep)
    database = Database(ours, server_store.database.tables)
    assert isolation_of(database) == "READ COMMITTED"

    # And two units that meet on a row do not fail, as they would above that level.
    job = queue(server_store)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: change(Store(database, ""), job.id, title="x"), range(12)))
    ours.dispose()


@pytest.mark.postgresql
def test_ours_is_read_committed_where_the_database_says_otherwise(postgresql_url: str) -> None:
    name = sa.make_url(postgresql_url).database
    with host_engine(postgresql_url).begin() as connection:
        connection.exec_driver_sql(
            f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
        )
    make_tables(postgresql_url)
    assert isolation_of(open_store(postgresql_url).database) == "READ COMMITTED"


def test_a_host_that_holds_its_only_connection_does_not_block_us(store: Store) -> None:
    host = sa.create_engine(
        store.url, poolclass=sa.pool.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.1
    )
    ours = Store(Database(own_engine(host, {}), store.database.tables), store.url)
    with host.connect() as held:
        held.execute(sa.select(store.database.tables.jobs.c.id)).all()
        assert queue(ours).status == "queued"
    host.dispose()


def test_what_the_host_connects_with_is_taken_over(store: Store) -> None:
    host, asked = host_engine(store.url), []

    @sa.event.listens_for(host, "do_connect")
    def late_password(_dialect: Any, _record: Any, _args: Any, arguments: Any) -> None:
        asked.append(arguments)

    queue(Store(Database(own_engine(host, {}), store.database.tables), store.url))
    assert asked

    made = []

    def creator() -> Any:
        made.append(True)
        arguments, options = host.dialect.create_connect_args(host.url)
        return host.dialect.connect(*arguments, **options)

    ours = own_engine(host, {"creator": creator})
    queue(Store(Database(ours, store.database.tables), store.url))
    assert made


def test_connect_arguments_of_the_host_win(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def create(_url: Any, **options: Any) -> sa.Engine:
        seen.append(options)
        return host_engine(store.url)

    monkeypatch.setattr(module, "create_engine", create)
    own_engine(host_engine(store.url), {"connect_args": {"timeout": 77, "connect_timeout": 78}})
    assert seen[0]["connect_args"]["timeout"] == 77
    assert seen[0]["connect_args"]["connect_timeout"] == 78


@pytest.mark.mariadb
def test_counts_agree_where_the_driver_counts_changed_rows(
    mariadb_server: Any, shared_mariadb: Store
) -> None:
    """A creator of the host's may leave FOUND_ROWS out: every guarded write changes its row."""
    url = sa.make_url(shared_mariadb.url)

    def creator() -> Any:
        return pymysql.connect(
            host=url.host, port=url.port or 0, user=url.username, database=url.database
        )

    host = host_engine(shared_mariadb.url)
    bare = Store(
        Database(own_engine(host, {"creator": creator}), shared_mariadb.database.tables), ""
    )
    won = start(bare)
    assert bare.ownership.beat(won.fence)
    assert bare.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    assert bare.ownership.set_stop_reason(won.fence, "shutdown")
    assert bare.jobs.request_cancel(won.fence.job_id, 1, None)
    assert bare.endings.finish(won.fence, Outcome(status="succeeded"), last_seq=1)
    assert bare.attempts.add_report(won.fence.job_id, 1, won.fence.token, {"signal": 9}, [])
    assert_sound(bare)


# -- nothing is left behind -------------------------------------------------------------------

OPEN_TRANSACTIONS = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND state LIKE 'idle in transaction%%'",
    "mariadb": "SELECT count(*) FROM information_schema.innodb_trx",
}


def test_nothing_is_left_in_a_transaction(server_store: Store) -> None:
    kept = open_store(server_store.url, keep=True)
    job = queue(kept)
    kept.listing.sweepable_ids(0)
    kept.jobs.get(job.id)
    with pytest.raises(RuntimeError):
        kept.database.run(_raise)
    with pytest.raises(RuntimeError):
        kept.database.read(_raise)
    with host_engine(server_store.url).connect() as watcher:
        query = OPEN_TRANSACTIONS[server_store.kind]
        assert watcher.exec_driver_sql(query).scalar_one() == 0
    kept.database.engine.dispose()


def _raise(connection: sa.Connection) -> None:
    connection.exec_driver_sql("SELECT 1")
    raise RuntimeError("in the middle of a unit")


@pytest.mark.postgresql
def test_a_pooled_connection_keeps_none_of_our_settings(shared_postgresql: Store) -> None:
    kept = open_store(shared_postgresql.url, keep=True)
    inside = kept.database.run(_settings)
    assert inside == ["5s", "10s", "30s"]
    raw = kept.database.engine.raw_connection()
    cursor = raw.cursor()
    outside: list[str] = []
    for name in SETTINGS:
        cursor.execute(f"SHOW {name}")
        outside += cursor.fetchone() or ()
    raw.close()
    kept.database.engine.dispose()
    assert outside == ["0", "0", "0"]


SETTINGS = ["lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"]


def _settings(connection: sa.Connection) -> list[str]:
    return [str(connection.exec_driver_sql(f"SHOW {name}").scalar_one()) for name in SETTINGS]


# -- clocks -----------------------------------------------------------------------------------


def test_the_database_s_clock_is_close_and_moves_inside_a_transaction(store: Store) -> None:
    def unit(connection: sa.Connection) -> list[int]:
        ask = store.database.now
        return [int(connection.execute(sa.select(ask())).scalar_one()) for _ in range(2)]

    before = time.time_ns() // 1000
    first, second = store.database.run(unit)
    after = time.time_ns() // 1000
    assert before - 50_000 <= first <= second <= after + 50_000


def test_a_wait_for_the_lock_does_not_make_times_old(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit may wait for its turn: what it writes is when it was written."""
    job = queue(sqlite_store)
    store = sqlite_store
    holder = store.database.engine.connect()
    holder.begin()
    released: list[int] = []

    def release() -> None:
        released.append(time.time_ns() // 1000)
        holder.rollback()
        holder.close()

    timer = threading.Timer(0.3, release)
    timer.start()
    assert store.jobs.cancel_queued(job.id, 1, None)
    timer.join()
    assert row(store, job.id)["finished_at"] >= released[0]
