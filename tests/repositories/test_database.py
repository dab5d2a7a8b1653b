"""Our connections: isolation, time limits, and what a network can do to a commit."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa

from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from flask_jobrunner.model.records import Claim, Outcome, Verdict
from flask_jobrunner.repositories import database as module
from flask_jobrunner.repositories.database import Database, own_engine
from flask_jobrunner.repositories.listing import JobFilter
from tests.helpers.lossy import LossyProxy, proxy_before
from tests.helpers.stores import (
    Store,
    assert_sound,
    change,
    claim,
    everything,
    history,
    host_engine,
    lines,
    make_tables,
    messages,
    new_job,
    open_store,
    owned,
    queue,
    row,
    start,
    try_claim,
)

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
def proxy(server_store: Store) -> Iterator[LossyProxy]:
    with proxy_before(server_store.url) as found:
        yield found


@pytest.fixture(params=[False, True], ids=["own connections", "kept connections"])
def far(request: pytest.FixtureRequest, server_store: Store, proxy: LossyProxy) -> Iterator[Store]:
    """The same database by way of the proxy, as in a web process and as in a job's."""
    found = open_store(proxy.url(server_store.url), keep=request.param)
    yield found
    found.database.engine.dispose()


# -- the answer to a COMMIT is lost -----------------------------------------------------------


@pytest.mark.parametrize("what", ["answer", "question"])
def test_a_start_whose_commit_broke_is_one_row(
    server_store: Store, far: Store, proxy: LossyProxy, what: Any
) -> None:
    far.meta.ensure()
    proxy.lose(what)
    new = new_job(lock_key="k")
    job = far.jobs.add(new)
    assert proxy.losses == 1
    assert job is not None
    assert job.uuid == new.uuid
    assert len(everything(server_store)["jobrun_jobs"]) == 1
    assert history(server_store, job.id) == [("start", None, "queued")]


@pytest.mark.parametrize("what", ["answer", "question"])
def test_a_claim_whose_commit_broke_is_believed_by_its_token(
    server_store: Store, far: Store, proxy: LossyProxy, what: Any
) -> None:
    job = queue(server_store)
    proxy.lose(what)
    won = try_claim(far, job, token="mine")
    assert proxy.losses == 1
    assert won is not None
    assert won.fence.token == row(server_store, job.id)["worker_token"] == "mine"
    (attempt,) = server_store.attempts.of(job.id)
    assert attempt.id == won.attempt_id
    assert len(history(server_store, job.id)) == 2


def test_a_claim_that_another_won_meanwhile_is_not_believed(
    server_store: Store, far: Store, proxy: LossyProxy
) -> None:
    """The commit never arrived, and before it could be sent again somebody else was there."""
    job = queue(server_store)
    proxy.lose("question")
    run, other = far.database.engine.dispose, list[Claim]()

    def between(*_: Any, **__: Any) -> None:
        run()
        if not other:
            other.append(claim(server_store, job, token="other"))

    far.database.engine.dispose = between  # type: ignore[method-assign]
    assert try_claim(far, job, token="mine") is None
    assert row(server_store, job.id)["worker_token"] == "other"


@pytest.mark.parametrize("what", ["answer", "question"])
def test_every_write_of_an_owner_survives_a_broken_commit(
    server_store: Store, far: Store, proxy: LossyProxy, what: Any
) -> None:
    won = claim(server_store)
    job_id = won.fence.job_id
    acts: list[Callable[[], object]] = [
        lambda: far.ownership.mark_started(won.fence, 60.0),
        lambda: far.ownership.beat(won.fence, lines=lines("a", "b"), last_seq=0),
        lambda: far.ownership.beat(won.fence),
        lambda: far.jobs.request_cancel(job_id, 1, "ann"),
        lambda: far.endings.finish(
            won.fence, Outcome(status="succeeded", result_json="1"), lines=lines("c"), last_seq=2
        ),
    ]
    for number, act in enumerate(acts, start=1):
        proxy.lose(what)
        assert act()
        assert proxy.losses == number
    assert messages(server_store, job_id) == [(1, "a"), (2, "b"), (3, "c"), (4, "Cancelled")]
    assert [action for action, *_ in history(server_store, job_id)] == [
        *("start", "claim", "cancel", "finish")
    ]
    assert row(server_store, job_id)["result_json"] == "1"
    assert_sound(server_store)


@pytest.mark.parametrize("what", ["answer", "question"])
def test_a_verdict_whose_commit_broke_counts_once(
    server_store: Store, far: Store, proxy: LossyProxy, what: Any
) -> None:
    won = start(server_store)
    seen = owned(server_store, won.fence.job_id)
    proxy.lose(what)
    judged = far.endings.end_dead(
        seen, Verdict(status="interrupted", reason="process_died", message="It died.")
    )
    assert proxy.losses == 1
    # After a lost answer the row is found ended: somebody ended it, and it was only once.
    assert judged == (what == "question")
    assert row(server_store, won.fence.job_id)["status"] == "interrupted"
    assert len(history(server_store, won.fence.job_id)) == 3
    assert_sound(server_store)


def test_a_connection_that_died_in_the_pool_is_not_noticed(far: Store, proxy: LossyProxy) -> None:
    queue(far)
    proxy.cut_all()
    assert queue(far).status == "queued"
    assert far.listing.find(JobFilter()).jobs


# -- a server that is not there ---------------------------------------------------------------


def test_refused_is_told_at_once(server_store: Store, proxy: LossyProxy) -> None:
    gone = open_store(proxy.url(server_store.url))
    proxy.refuse()
    acts: list[Callable[[], object]] = [
        lambda: queue(gone),
        lambda: gone.jobs.get(1),
        gone.meta.ensure,
    ]
    for act in acts:
        began = time.monotonic()
        with pytest.raises(DatabaseAway):
            act()
        assert time.monotonic() - began < module.BUSY_TIMEOUT


def test_a_silent_server_is_told_within_the_timeouts(
    server_store: Store, proxy: LossyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # libpq takes no connect timeout below two seconds.
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 2.0)
    monkeypatch.setattr(module, "STATEMENT_TIMEOUT", 2.0)
    proxy.silent = True
    gone = open_store(proxy.url(server_store.url))
    acts: list[tuple[Callable[[], object], int]] = [
        (lambda: queue(gone), 2),
        (lambda: gone.jobs.get(1), 1),
    ]
    for act, tries in acts:
        began = time.monotonic()
        with pytest.raises(DatabaseAway):
            act()
        assert time.monotonic() - began < 2.0 * tries + 3


def test_an_sqlite_file_that_cannot_be_opened(tmp_path: Path) -> None:
    gone = open_store(f"sqlite:///{tmp_path / 'no such folder' / 'app.sqlite'}")
    with pytest.raises(DatabaseAway):
        queue(gone)


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
        began = time.monotonic()
        with pytest.raises(LockBusy):
            short_waits.database.run(unit)
        assert time.monotonic() - began < 5
    assert row(store, first.id)["title"] is None
    assert row(store, other.id)["title"] == "held"
    short_waits.database.run(unit)
    assert row(store, other.id)["title"] == "changed"


@pytest.mark.parametrize("server_store", SERVERS, indirect=True)
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


@pytest.mark.parametrize("server_store", SERVERS, indirect=True)
def test_nothing_is_left_in_a_transaction(server_store: Store) -> None:
    kept = open_store(server_store.url, keep=True)
    job = queue(kept)
    kept.listing.find(JobFilter())
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


# -- SQLite -----------------------------------------------------------------------------------


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Store:
    make_tables(sqlite_url)
    return open_store(sqlite_url)


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


def test_readers_go_on_beside_a_writer_and_a_writer_beside_readers(sqlite_store: Store) -> None:
    job = queue(sqlite_store)
    jobs = sqlite_store.database.tables.jobs
    with sqlite_store.database.engine.begin() as writer:
        writer.execute(sa.update(jobs).values(title="not yet"))
        began = time.monotonic()
        assert row(sqlite_store, job.id)["title"] is None
        assert time.monotonic() - began < 1

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
