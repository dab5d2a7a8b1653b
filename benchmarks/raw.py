"""The bare database driver, writing the same rows into the same tables: the other side."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa


class RawTable:
    """One table of a second database, written through the driver's own cursor."""

    def __init__(self, connection: Any, table: sa.Table, dialect: sa.Dialect) -> None:
        self._connection = connection
        statement = table.insert().compile(dialect=dialect)
        self._sql = str(statement)
        self._order: Sequence[str] | None = getattr(statement, "positiontup", None)

    def insert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """One `executemany` and its commit."""
        values = [self._values(row) for row in rows]
        cursor = self._connection.cursor()
        cursor.executemany(self._sql, values)
        self._connection.commit()
        cursor.close()

    def _values(self, row: Mapping[str, Any]) -> Any:
        return dict(row) if self._order is None else [row[name] for name in self._order]


@contextmanager
def driver(engine: sa.Engine) -> Iterator[Any]:
    """A connection of the driver's, with what makes SQLite as safe as ours is."""
    connection = engine.raw_connection()
    if engine.dialect.name == "sqlite":
        cursor = connection.cursor()
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            cursor.execute(f"PRAGMA {setting}")
        cursor.close()
    try:
        yield connection
    finally:
        connection.close()


def rows_of(engine: sa.Engine, table: sa.Table, **where: object) -> list[dict[str, Any]]:
    """Rows as our own code wrote them."""
    statement = sa.select(table).filter_by(**where)
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def another_job(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The same job once more, as a new row."""
    return {**row, "id": number, "job_uuid": str(uuid.uuid4()), "active_lock_key": None}
