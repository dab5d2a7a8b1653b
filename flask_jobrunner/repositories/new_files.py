"""Rows of files as they are inserted and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, insert

from flask_jobrunner.model.files import File, NewFile, StoredFile

from .database import Database
from .rows import as_known_time, as_time, span


def file_values(database: Database, new: NewFile) -> dict[str, Any]:
    """What a row says of new bytes."""
    now = database.now()
    return {
        "path": new.path,
        "size": new.size,
        "content_type": new.content_type,
        "sha256": new.sha256,
        "created_at": now,
        "expires_at": None if new.keep is None else now + span(new.keep),
        "expired_at": None,
    }


def add_file(
    connection: Connection, database: Database, job_id: int, attempt: int, new: NewFile
) -> None:
    """Insert one row."""
    connection.execute(
        insert(database.tables.files).values(
            job_id=job_id,
            attempt=attempt,
            kind=new.kind,
            name=new.name,
            **file_values(database, new),
        )
    )


def add_inputs(
    connection: Connection, database: Database, job_id: int, files: Sequence[NewFile]
) -> None:
    """Insert what a new job is given, in its own transaction."""
    for new in files:
        add_file(connection, database, job_id, 1, new)


def to_stored(row: RowMapping) -> StoredFile:
    """One row."""
    direct = ("name", "kind", "size", "content_type", "sha256", "attempt")
    return StoredFile(
        file=File(
            created_at=as_known_time(row["created_at"]),
            expires_at=as_time(row["expires_at"]),
            expired_at=as_time(row["expired_at"]),
            **{name: row[name] for name in direct},
        ),
        path=row["path"],
    )
