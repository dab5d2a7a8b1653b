"""Two real transactions on one row: the first stands before its commit while the second waits.

That it waits, the database says itself; a second that went by without waiting proves nothing.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from flask_jobrunner.repositories.database import Database
from tests.helpers.stores import Store, open_store
from tests.helpers.waiting import eventually

Call = Callable[[Store], Any]
# Who waits for a lock in this very database, as the servers tell.
_WAITING = {
    "postgresql": (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ),
    "mariadb": (
        "SELECT count(*) FROM information_schema.innodb_trx t"
        " JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"
        " WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()"
    ),
}


def held(store: Store, first: Call, second: Call) -> tuple[Any, Any]:
    """What both return, where `first` had the row until `second` was seen waiting for it."""
    one, two = (open_store(store.url, keep=True) for _ in range(2))
    # Connected before: on SQLite the preparation of a connection would be what waits.
    for each in (one, two):
        each.database.read(lambda found: found.exec_driver_sql("SELECT 1"))
    written, asked, go = threading.Event(), threading.Event(), threading.Event()

    def before_commit(_connection: sa.Connection) -> None:
        written.set()
        assert go.wait(60), "nobody let the first transaction go on"

    sa.event.listen(one.database.engine, "commit", before_commit, once=True)

    def before_statement(*_: object) -> None:
        asked.set()

    # On SQLite the first statement is the BEGIN that waits.
    sa.event.listen(two.database.engine, "before_cursor_execute", before_statement)
    with ThreadPoolExecutor(2) as threads:
        try:
            ahead = threads.submit(first, one)
            eventually(lambda: written.is_set() or ahead.done(), timeout=60)
            assert not ahead.done(), "the first one never came to a commit"
            behind = threads.submit(second, two)
            eventually(lambda: asked.is_set() and _waits(store, behind), timeout=60)
            assert not behind.done()
        finally:
            go.set()
        told = ahead.result(60), behind.result(60)
    for each in (one, two):
        each.database.engine.dispose()
    return told


def _waits(store: Store, behind: Future[Any]) -> bool:
    assert not behind.done(), "the second one did not wait"
    if store.kind == "sqlite":
        return _is_locked(store.database)
    return bool(
        store.database.read(lambda found: found.exec_driver_sql(_WAITING[store.kind]).scalar())
    )


def _is_locked(database: Database) -> bool:
    """SQLite tells of nobody's waiting, but a third one that has no patience is refused."""
    connection = sqlite3.connect(str(database.file), timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorname == "SQLITE_BUSY"
    finally:
        connection.close()
    return False
