"""Telling PostgreSQL's listeners that there is a new job, after the commit that made it.

Not inside the transaction: a commit that notifies takes a lock that the whole server shares, and
a transaction that notifies cannot be prepared for a two-phase commit. A word that is lost with its
process costs one idle sleep.
"""

from __future__ import annotations

import contextlib
from typing import Any

from sqlalchemy import Connection

from .tables import Tables

_KEY = "jobrunner_announce"
_TOLD = "SELECT pg_notify(%s, %s)"


def channel(tables: Tables) -> str:
    """One for each prefix; listeners of other schemas hear it too, and find nothing."""
    return f"{tables.jobs.name.removesuffix('jobs')}queue"[:63]


def announce(connection: Connection, tables: Tables, word: str = "") -> None:
    """Have `word` told once the unit that `connection` runs has committed."""
    if connection.dialect.name == "postgresql":
        connection.info[_KEY] = (channel(tables), word)


def forget(connection: Connection) -> None:
    """Nothing was announced yet."""
    connection.info.pop(_KEY, None)


def tell(connection: Connection) -> None:
    """Tell what was announced. Never fails: what it is about is committed."""
    announced = connection.info.pop(_KEY, None)
    if announced is None:
        return
    raw: Any = connection.connection.dbapi_connection
    try:
        # Past SQLAlchemy, whose transaction would cost two more ways to the server.
        raw.autocommit = True
        with contextlib.closing(raw.cursor()) as cursor:
            cursor.execute(_TOLD, announced)
        raw.autocommit = False
    except Exception:  # noqa: BLE001 - of any driver
        connection.invalidate()
