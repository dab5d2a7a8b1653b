"""What the driver knows about its transaction, without asking the server."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

_PSYCOPG_IDLE = 0
_MYSQL_IN_TRANSACTION = 1  # bits of server_status
_HAVE_THE_FLAG = ("psycopg", "psycopg2", "pg8000")
_HAVE_THE_METHOD = ("pymysql", "mysqldb")


def nothing_open(connection: Connection) -> bool:
    """Whether it is certain that this connection has no transaction that could be rolled back."""
    if connection.closed or connection.invalidated or not connection.in_transaction():
        return True
    driver, raw = connection.dialect.driver, connection.connection.dbapi_connection
    if driver == "pysqlite":
        return getattr(raw, "in_transaction", True) is False
    return commits_at_once(connection) and not _inside(driver, raw)


def commits_at_once(connection: Connection) -> bool:
    """Whether the connection is in autocommit mode: each statement commits itself."""
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        return True
    driver, raw = connection.dialect.driver, connection.connection.dbapi_connection
    if driver == "pysqlite":
        # Without an isolation level, whoever set it may begin transactions by hand.
        return getattr(raw, "isolation_level", "") is None and not getattr(
            raw, "in_transaction", True
        )
    if driver in _HAVE_THE_FLAG:
        return getattr(raw, "autocommit", None) is True
    if driver in _HAVE_THE_METHOD:
        return bool(getattr(raw, "get_autocommit", bool)())
    return False  # other drivers may run a statement to answer


def _inside(driver: str, raw: Any) -> bool:
    # A BEGIN by hand also works in autocommit mode.
    if driver in ("psycopg", "psycopg2"):
        return bool(raw.info.transaction_status != _PSYCOPG_IDLE)
    return bool(getattr(raw, "server_status", 0) & _MYSQL_IN_TRANSACTION)
