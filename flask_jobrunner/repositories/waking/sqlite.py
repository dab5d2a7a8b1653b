"""The kernel tells that somebody writes to the file, SQLite whether it is committed."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from flask_jobrunner.protocol import inotify

from .listener import ListenerLost

WINDOW = 2.0
"""Seconds after a write for which its commit may still become visible: in between, SQLite waits
for the disk, and what makes it visible is no write to a file."""
FIRST_LOOK, LONGEST_LOOK = 0.001, 0.256
_IN_FOLDER = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO


class FileListener:
    """Watches the database's file and its write-ahead log, which may be made anew at any time.

    `PRAGMA data_version` changes when another connection has committed: see
    https://www.sqlite.org/pragma.html#pragma_data_version
    """

    how = "through the database's file"
    echoes = False

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises `OSError` where files cannot be watched."""
        self._clock = clock
        held = engine.raw_connection()
        held.detach()
        raw: Any = held.dbapi_connection
        self._raw = raw
        # The loop must not wait: whoever holds the lock is asked again.
        self._raw.execute("PRAGMA busy_timeout = 0")
        path = Path(self._raw.execute("PRAGMA database_list").fetchone()[2]).resolve()
        self._folder, self._name = path.parent, path.name
        try:
            self._inotify = inotify.Inotify()
        except OSError:
            self._raw.close()
            raise
        self.fd = self._inotify.fd
        try:
            self._in_folder = self._inotify.add(self._folder, _IN_FOLDER)
            self._inotify.add(path, inotify.MODIFY)
        except OSError:
            self.close()
            raise
        self._watch_wal()
        self._version = self._data_version()
        self._wrote()

    @property
    def left(self) -> float:
        """Seconds until a commit may have become visible."""
        return max(0.0, self._look_at - self._clock())

    def heard(self) -> bool:
        """See `Listener`."""
        for event in self._inotify.read():
            if self._is_write(event):
                self._wrote()
        if self._clock() < self._look_at:
            return False
        version = self._data_version()
        changed = version not in (None, self._version)
        if version is not None:
            self._version = version
        self._look_again()
        return changed

    def has_echoed(self, word: str) -> bool:  # noqa: ARG002 - the protocol's shape
        """Never: nothing is told to it."""
        return False

    def close(self) -> None:
        """Close the connection and the watches."""
        self._inotify.close()
        with contextlib.suppress(sqlite3.Error):
            self._raw.close()

    def _is_write(self, event: inotify.Event) -> bool:
        if event.watch == self._in_folder:
            if event.name == self._name:
                raise ListenerLost("the database's file was removed or replaced")
            if event.name == f"{self._name}-wal":
                self._watch_wal()
                return True
            return False
        return bool(event.mask & (inotify.MODIFY | inotify.OVERFLOW))

    def _watch_wal(self) -> None:
        # Made by the next who writes, if it is not there: the folder tells of that.
        with contextlib.suppress(FileNotFoundError):
            self._inotify.add(self._folder / f"{self._name}-wal", inotify.MODIFY)

    def _wrote(self) -> None:
        now = self._clock()
        self._until, self._look_at, self._pause = now + WINDOW, now, FIRST_LOOK

    def _look_again(self) -> None:
        """Another commit may follow whose writes have been told of already."""
        now = self._clock()
        self._look_at = now + self._pause if now < self._until else math.inf
        self._pause = min(2 * self._pause, LONGEST_LOOK)

    def _data_version(self) -> int | None:
        """None while somebody's lock is in the way."""
        try:
            return int(self._raw.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.OperationalError:
            return None
        except sqlite3.Error as error:
            raise ListenerLost(f"the database cannot be read ({error})") from error
