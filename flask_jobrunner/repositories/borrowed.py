"""On the host's own connection, where its tests keep everything in one: record and inline mode.

A database in memory has one connection for all, and a test that rolls everything back at its end
has one for the test. There we write too: each of our transactions is a savepoint, and nothing is
ever committed or rolled back but what is ours.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool, StaticPool

from .database import Clock, Database, wall_clock
from .host_session import outside
from .tables import Tables

T = TypeVar("T")
_numbers = itertools.count(1)
NOWHERE: Any = None
"""The engine of a database that is looked for anew each time."""


class Borrowed:
    """A DBAPI connection that stays the host's: what SQLAlchemy takes for a transaction on it is a
    savepoint, and closing it does nothing.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._savepoint: str | None = None

    def begin(self) -> None:
        """Set the savepoint."""
        name = f"jobrunner_{next(_numbers)}"
        execute(self._raw, f"SAVEPOINT {name}")
        self._savepoint = name

    def commit(self) -> None:
        """Keep what was done; with the host's transaction it may still be undone."""
        name, self._savepoint = self._savepoint, None
        if name is not None:
            execute(self._raw, f"RELEASE SAVEPOINT {name}")

    def rollback(self) -> None:
        """Undo what was done since `begin`, and nothing else."""
        name, self._savepoint = self._savepoint, None
        if name is not None:
            execute(self._raw, f"ROLLBACK TO SAVEPOINT {name}")
            execute(self._raw, f"RELEASE SAVEPOINT {name}")

    def close(self) -> None:
        """It is the host's to close."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def execute(raw: Any, statement: str) -> None:
    """Run one statement past SQLAlchemy, which would take it for the host's."""
    cursor = raw.cursor()
    try:
        cursor.execute(statement)
    finally:
        cursor.close()


def _borrow(host: Engine, raw: Any) -> Engine:
    """An engine whose every connection is `raw`. It shares the host's dialect: making one of its
    own would begin with a rollback on that very connection.
    """
    pool = NullPool(lambda: Borrowed(raw), reset_on_return=None, dialect=host.dialect)
    engine = Engine(pool, host.dialect, host.url)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    borrowed: Any = connection.connection.dbapi_connection
    borrowed.begin()


class SharedDatabase(Database):
    """Units run where the host's session would write now: asked anew for each, as a fixture may
    put a connection in the place of an engine, and take it away again.

    `find` says where that is, `own` makes an engine of ours for one of the host's, and `session`
    is the host's session of this context, if there is one.
    """

    def __init__(
        self,
        find: Callable[[], Engine | Connection],
        own: Callable[[Engine], Engine],
        session: Callable[[], Session | None],
        tables: Tables,
        clock: Clock = wall_clock,
    ) -> None:
        super().__init__(NOWHERE, tables, clock, find=find)
        self._own, self._session = own, session
        self._made: tuple[object, Engine] | None = None
        self._turn = threading.RLock()

    @property
    def engine(self) -> Engine:
        """Ours for what the host's session writes to now."""
        host = self.host
        raw = _shared(host)
        key = host if raw is None else raw
        # The last one only: a test's connection is not to be kept for the next one.
        if self._made is None or self._made[0] is not key:
            self._made = (key, self._own(host.engine) if raw is None else _borrow(host.engine, raw))
        return self._made[1]

    @property
    def shared(self) -> Engine | Connection | None:
        """See `Database.shared`."""
        host = self.host
        return None if _shared(host) is None else host

    def run(
        self,
        unit: Callable[[Connection], T],
        *,
        read_back: Callable[[Connection], T | object] | None = None,
    ) -> T:
        """See `Database.run`; outlasts a rollback of a session that has only read."""
        with self._in_turn(), self.outside():
            return super().run(unit, read_back=read_back)

    def read(self, unit: Callable[[Connection], T]) -> T:
        """See `Database.read`."""
        with self._in_turn():
            return super().read(unit)

    def _in_turn(self) -> AbstractContextManager[object]:
        # Another thread's savepoint inside of ours would end with it.
        return nullcontext() if self.shared is None else self._turn

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Step out of what the host's session has begun on a shared connection.

        Only where it has written nothing: a session that has read rolls back when its request
        ends, and in process mode a job outlasts that.
        """
        host, session = self.host, self._session()
        raw = _shared(host)
        if raw is None or session is None:
            yield
            return
        run, joined = functools.partial(execute, raw), isinstance(host, Connection)
        with outside(session, raw, run, joined=joined):
            yield


def _shared(host: Engine | Connection) -> Any:
    """The DBAPI connection that the host's tests share; None where each use has one of its own."""
    if isinstance(host, Connection):
        return host.connection.dbapi_connection
    if not isinstance(host.pool, StaticPool):
        return None
    if host.pool.connection.dbapi_connection is None:
        host.connect().close()  # it was given up on, and nobody has asked for the next one
    return host.pool.connection.dbapi_connection
