"""Whether the database can be worked with: told once when that changes, not at every try."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable

from flask_jobrunner.model.errors import DatabaseAway, LockBusy

from .backoff import Backoff
from .log import Log

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0


class Contact:
    """While it is lost nothing is handed out; what runs goes on."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._pause = Backoff(FIRST_PAUSE, LONGEST_PAUSE, clock)
        self._told: str | None = None

    @property
    def left(self) -> float:
        """Seconds until it is worth to try again."""
        return self._pause.left

    @property
    def is_lost(self) -> bool:
        """Whether the last try failed."""
        return self._pause.failures > 0

    def lost(self, error: Exception) -> None:
        """Something that needs the database failed."""
        self._pause.fail()
        kind = type(error).__name__
        if kind == self._told:
            return
        self._told = kind
        if isinstance(error, (DatabaseAway, LockBusy)):
            event = "database_away" if isinstance(error, DatabaseAway) else "database_busy"
            self._log.warning(event, f"{error} Running jobs go on; no more are taken.")
        else:
            text = "".join(traceback.format_exception(error))
            self._log.error("error", f"Unexpected, tried again: {text}", error=kind)

    def made(self) -> None:
        """Something that needs the database worked."""
        self._told = None
        if self._pause.succeed():
            self._log.info("database_back", "The database answers again.")
