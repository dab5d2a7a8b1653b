"""A connection that is kept notices that its SQLite file was deleted or replaced.

The system lets a process write to a file that has no name any more: a job would go on, and end,
where nobody will ever look.
"""

from __future__ import annotations

import os
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

from flask_jobrunner.model.errors import DatabaseAway

Place = tuple[str, int, int]
KEY = "jobrunner_file"
# Taken early, as a handler may replace it.
_stat = os.stat


def watch_file(engine: Engine) -> None:
    """Let no connection of the engine's pool be used for a file that is not there any more."""
    event.listen(engine, "connect", _remember)
    event.listen(engine, "checkout", _compare)


def _remember(connection: Any, record: Any) -> None:
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if path:  # not in memory
        status = _stat(path)
        record.info[KEY] = (path, status.st_dev, status.st_ino)


def _compare(_connection: Any, record: Any, _proxy: Any) -> None:
    """Another file under this name: connect anew. None at all: the database is away."""
    place: Place | None = record.info.get(KEY)
    if place is None:
        return
    path, *was = place
    try:
        status = _stat(path)
    except FileNotFoundError as error:
        raise DatabaseAway("The file of the database is not there any more.") from error
    if [status.st_dev, status.st_ino] != was:
        raise DisconnectionError("another file has this name now")
