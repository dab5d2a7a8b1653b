"""Our own connections and short transactions on the host's database.

Never the host's engine: it may run SERIALIZABLE, hold one pooled connection that the request
already has, or use sqlite3's deferred transactions, where reading first and writing second fails
at once however long the busy timeout is.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    RowMapping,
    Select,
    create_engine,
    event,
    func,
    literal,
    literal_column,
)
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.pool import NullPool, QueuePool

from flask_jobrunner.model.errors import (
    DatabaseAway,
    DatabaseFull,
    JobRunnerError,
    LockBusy,
    SchemaError,
)

from .announcing import forget, tell
from .faults import classify, missing_table
from .sqlite_file import watch_file
from .tables import Tables

T = TypeVar("T")
Clock = Callable[[], int]

BUSY_TIMEOUT = 5.0
"""Seconds that one statement may wait for a lock, and one connect for an answer. A unit that has
taken as long is not tried again."""
STATEMENT_TIMEOUT = 2 * BUSY_TIMEOUT
TRIES = 4
IDLE_LIMIT = 30
"""Seconds after which a server ends a transaction of ours that does nothing, as when its process
was stopped in the middle: its locks are given back."""
MIGRATE = "run `flask db migrate` and `flask db upgrade` (or `db.create_all()`)"
# Taken early, as a handler may replace them.
_sleep, _monotonic = time.sleep, time.monotonic
MISSING = object()
"""What a read-back answers when the unit turns out not to have been committed."""


def wall_clock(now: Callable[[], int] = time.time_ns) -> int:
    """Microseconds UTC of this process; the real ones also where a handler froze `time`."""
    return now() // 1000


class Database:
    """Runs units of work, each in one short transaction on a connection of its own."""

    def __init__(
        self,
        engine: Engine,
        tables: Tables,
        clock: Clock = wall_clock,
        *,
        find: Callable[[], Engine | Connection] | None = None,
    ) -> None:
        self._engine = engine
        self.tables = tables
        self.clock = clock
        """SQLite has no useful clock of its own: there, each process's counts."""
        self._find = find or (lambda: engine)

    @property
    def engine(self) -> Engine:
        """Ours."""
        return self._engine

    @property
    def host(self) -> Engine | Connection:
        """What the host's own session writes to now: a test may have put a connection there."""
        return self._find()

    @property
    def host_has_one_connection(self) -> bool:
        """Whether the host keeps to one connection, whose transaction no other process sees."""
        return isinstance(self.host, Connection)

    @property
    def shared(self) -> Engine | Connection | None:
        """What host and jobs write through together; None where we have connections of our own."""
        return None

    @property
    def dialect(self) -> str:
        """`sqlite`, `postgresql`, `mysql` or `mariadb`."""
        return self.engine.dialect.name

    @property
    def in_memory(self) -> bool:
        """Whether no other process can see this database."""
        url = self.engine.url
        file = url.database or ""
        return self.dialect == "sqlite" and (
            not file or ":memory:" in file or url.query.get("mode") == "memory"
        )

    @property
    def file(self) -> str | None:
        """The path of an SQLite file; None for a database on a server or in memory."""
        if self.dialect != "sqlite" or self.in_memory:
            return None
        return (self.engine.url.database or "").removeprefix("file:")

    def now(self) -> ColumnElement[int]:
        """The database's clock, in microseconds UTC, as an expression in a statement.

        Asked for inside a unit: what is asked for before may be old when its turn has come.
        """
        if self.dialect == "sqlite":
            return literal(self.clock())
        if self.dialect == "postgresql":
            # now() stands still inside a transaction, clock_timestamp() moves inside a statement.
            return literal_column("(extract(epoch from statement_timestamp()) * 1000000)::bigint")
        return func.timestampdiff(
            literal_column("MICROSECOND"), literal("1970-01-01"), func.utc_timestamp(6)
        )

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Nothing of the host's is open on our own connections."""
        yield

    def run(
        self,
        unit: Callable[[Connection], T],
        *,
        read_back: Callable[[Connection], T | object] | None = None,
    ) -> T:
        """Run a unit in one write transaction and return what it returns.

        Conflicts are retried whole. A commit that breaks may have happened: `read_back` then says
        what became of it (`MISSING`: nothing), and without one the unit must be one that can
        simply be run again. Raises `LockBusy` or `DatabaseAway` when tries or time are used up; a
        unique violation leaves as SQLAlchemy's `IntegrityError`.
        """
        broken, until = False, _monotonic() + BUSY_TIMEOUT
        for attempt in range(1, TRIES + 1):
            try:
                if broken and read_back is not None:
                    found = self._once(read_back)
                    if found is not MISSING:
                        return found  # type: ignore[return-value]  # only MISSING is no T
                return self._once(unit)
            except (DBAPIError, PendingRollbackError) as error:
                fault = self._fault(error)
                # What became of a commit has to be asked once, however long it took to break.
                patient = _monotonic() < until or (fault == "reconnect" and not broken)
                if attempt == TRIES or not patient:
                    # SQLite says "busy" for ever on a connection whose descriptors were closed.
                    self.engine.dispose()
                    raise _given_up(fault, error) from error
                broken = broken or fault == "reconnect"
                _sleep(random.uniform(0.01, 0.05) * 2**attempt)
        raise AssertionError("unreachable")

    def read(self, unit: Callable[[Connection], T]) -> T:
        """Run a unit that only reads."""
        until = _monotonic() + BUSY_TIMEOUT
        for attempt in range(1, TRIES + 1):
            try:
                with self.engine.connect() as connection:
                    if self.dialect == "sqlite":
                        connection.execution_options(jobrunner_begin="BEGIN")
                    return unit(connection)
            except (DBAPIError, PendingRollbackError) as error:
                fault = self._fault(error)
                if attempt == TRIES or _monotonic() >= until:
                    raise _given_up(fault, error) from error
                _sleep(random.uniform(0.01, 0.05) * 2**attempt)
        raise AssertionError("unreachable")

    def _fault(self, error: Exception) -> str:
        """`retry`, `reconnect`, `full`; raises all else again, a missing table as `SchemaError`."""
        fault = classify(error)
        if fault == "fatal" and missing_table(error):
            raise SchemaError(f"The tables of flask_jobrunner are missing: {MIGRATE}.") from error
        if fault in ("fatal", "conflict"):
            raise error
        if fault == "reconnect":
            self.engine.dispose()
        return fault

    def rows(self, statement: Select[Any]) -> Sequence[RowMapping]:
        """All rows of one SELECT."""
        return self.read(lambda connection: connection.execute(statement).mappings().all())

    def _once(self, unit: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            forget(connection)
            with connection.begin():
                result = unit(connection)
            if self.shared is None:
                tell(connection)
            return result


def _given_up(fault: str, error: Exception) -> JobRunnerError:
    # The driver's text may hold a DSN, so only its kind is told.
    kind = type(getattr(error, "orig", error)).__name__
    if fault == "retry":
        return LockBusy(f"The database was locked by others for too long ({kind}).")
    if fault == "full":
        return DatabaseFull(
            f"The database takes no writes: its disk is full, or it is read-only ({kind})."
        )
    return DatabaseAway(f"The database could not be reached ({kind}).")


def own_engine(host: Engine, options: Mapping[str, Any], *, keep: bool = False) -> Engine:
    """An engine of ours for the host's database, with our isolation, timeouts and events.

    `options` are the host's engine options: of them `connect_args` and `creator` are taken over,
    and from its engine what listens to `do_connect`, which is how passwords are put in late.
    `keep` holds connections open between units: for a process whose jobs are ours to run, while
    a web process must not multiply the host's connections.
    """
    arguments = dict(options.get("connect_args") or {})
    for key, value in _connect_arguments(host.dialect.name, host.dialect.driver).items():
        arguments.setdefault(key, value)
    extra: dict[str, Any] = {}
    if host.dialect.name != "sqlite":
        extra["isolation_level"] = "READ COMMITTED"
    if options.get("creator") is not None:
        extra["creator"] = options["creator"]
    if keep:
        extra |= {"poolclass": QueuePool, "pool_size": 2, "max_overflow": 3, "pool_pre_ping": True}
    engine = create_engine(host.url, connect_args=arguments, **({"poolclass": NullPool} | extra))
    for listener in host.dialect.dispatch.do_connect:
        event.listen(engine, "do_connect", listener)
    if host.dialect.name == "sqlite":
        _listen_to_sqlite(engine, keep=keep)
    elif host.dialect.name == "postgresql":
        event.listen(engine, "begin", _begin_postgresql)
    else:
        event.listen(engine, "connect", _prepare_mysql)
    return engine


def _connect_arguments(dialect: str, driver: str) -> dict[str, Any]:
    connect, answer = int(BUSY_TIMEOUT), int(STATEMENT_TIMEOUT)
    if dialect == "sqlite":
        return {"timeout": BUSY_TIMEOUT, "check_same_thread": False}
    if driver in ("psycopg", "psycopg2"):
        # What is prepared stays in a session, and a pooler lends each transaction another one.
        unprepared = {"prepare_threshold": None} if driver == "psycopg" else {}
        return unprepared | {
            "connect_timeout": connect,
            "keepalives_idle": connect,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 1000 * answer,
        }
    if driver == "pymysql":
        return {"connect_timeout": connect, "read_timeout": answer, "write_timeout": answer}
    return {}


def _listen_to_sqlite(engine: Engine, *, keep: bool) -> None:
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    if keep:
        watch_file(engine)


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # sqlite3 would begin transactions by itself, and only before some statements.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
    # Refused while anybody writes; the file stays as it is until a later connection.
    with contextlib.suppress(sqlite3.OperationalError):
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # IMMEDIATE: a deferred transaction that reads, then writes, fails at once when another wrote.
    begin = connection.get_execution_options().get("jobrunner_begin", "BEGIN IMMEDIATE")
    connection.exec_driver_sql(str(begin))


def _begin_postgresql(connection: Connection) -> None:
    # SET LOCAL: what a pooler lends on must not keep our settings.
    limits = {
        "lock_timeout": BUSY_TIMEOUT,
        "statement_timeout": STATEMENT_TIMEOUT,
        "idle_in_transaction_session_timeout": IDLE_LIMIT,
    }
    settings = [f"set_config('{name}', '{int(s * 1000)}', true)" for name, s in limits.items()]
    connection.exec_driver_sql(f"SELECT {', '.join(settings)}")


def _prepare_mysql(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # MySQL skips the comment: it has no such limit.
    cursor.execute(
        f"SET SESSION innodb_lock_wait_timeout = {int(BUSY_TIMEOUT)}"
        f" /*M!100300 , idle_transaction_timeout = {IDLE_LIMIT} */"
    )
    cursor.close()
