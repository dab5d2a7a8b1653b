"""LISTEN on a connection that does nothing else."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine

from .listener import ListenerLost

ECHO = "echo "
ECHOES_KEPT = 1000
"""More than all supervisors together tell while one of them waits for its own."""


class ChannelListener:
    """Hears what other connections notify.

    A pooler that lends a connection for a transaction at a time accepts LISTEN and delivers
    nothing: only an echo proves a channel.
    """

    how = "by NOTIFY"
    echoes = True

    def __init__(self, engine: Engine, channel: str) -> None:
        """Raises what the driver raises, and `ListenerLost` for a driver that is not known here."""
        held = engine.raw_connection()
        held.detach()
        raw: Any = held.dbapi_connection
        self._raw = raw
        self._echoes: deque[str] = deque(maxlen=ECHOES_KEPT)
        try:
            self._read = {"psycopg": _psycopg, "psycopg2": _psycopg2}[engine.dialect.driver]
            raw.rollback()
            raw.autocommit = True
            with contextlib.closing(raw.cursor()) as cursor:
                cursor.execute(f'LISTEN "{channel}"')
            self.fd: int = raw.fileno()
        except KeyError as error:
            self.close()
            raise ListenerLost(f"the driver {engine.dialect.driver} tells of no words") from error
        except BaseException:
            self.close()
            raise

    @property
    def left(self) -> float:
        """Whatever is heard makes the descriptor readable."""
        return math.inf

    def heard(self) -> bool:
        """See `Listener`; other supervisors' echoes are no jobs."""
        try:
            words = list(self._read(self._raw))
        except Exception as error:
            raise ListenerLost("the connection was lost") from error
        self._echoes.extend(word for word in words if word.startswith(ECHO))
        return any(not word.startswith(ECHO) for word in words)

    def has_echoed(self, word: str) -> bool:
        """See `Listener`."""
        return word in self._echoes

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._raw.close()


def _psycopg(raw: Any) -> Iterator[str]:
    raw.pgconn.consume_input()
    while (told := raw.pgconn.notifies()) is not None:
        yield told.extra.decode(errors="replace")


def _psycopg2(raw: Any) -> Iterator[str]:
    raw.poll()
    while raw.notifies:
        yield raw.notifies.pop(0).payload
