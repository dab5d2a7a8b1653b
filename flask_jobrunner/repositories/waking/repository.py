"""Telling and hearing of new jobs, on whatever database there is."""

from __future__ import annotations

import select
import time
from secrets import token_hex

from sqlalchemy import Connection, func
from sqlalchemy import select as query

from flask_jobrunner.repositories.announcing import announce, channel
from flask_jobrunner.repositories.database import Database

from .listener import Listener, ListenerLost, Unheard
from .postgresql import ECHO, ChannelListener
from .sqlite import FileListener


class WakeRepository:
    """Of one application's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def listen(self) -> Listener | None:
        """What hears of new jobs; None where this kind of database tells nobody.

        It has a connection of its own until it is closed. Raises `ListenerLost` where nothing can
        be heard now, though it could be, and `DatabaseAway`.
        """
        engine = self._database.engine
        if self._database.dialect == "postgresql":
            self._database.read(Connection.get_isolation_level)  # raises in our words
            return ChannelListener(engine, channel(self._database.tables))
        if self._database.file is None:
            return None
        try:
            return FileListener(engine)
        except OSError as error:
            raise ListenerLost(f"files cannot be watched ({error})") from error

    def listen_proven(self, timeout: float) -> Listener | None:
        """See `listen`; waits for an echo for so many seconds, and raises `Unheard` without one."""
        listener = self.listen()
        if listener is None:
            return None
        try:
            if self.prove(listener, timeout):
                return listener
        except BaseException:
            listener.close()
            raise
        listener.close()
        raise Unheard("nothing is heard, as behind a pooler in transaction mode")

    def tell(self, word: str = "") -> None:
        """Wake whoever listens, on a database that can."""
        tables = self._database.tables
        if self._database.dialect == "postgresql":
            self._database.run(lambda connection: announce(connection, tables, word))

    def echo(self) -> str:
        """Tell a word that is new, and which it was; listeners hear it and take it for no job."""
        word = f"{ECHO}{token_hex(8)}"
        self.tell(word)
        return word

    def prove(self, listener: Listener, timeout: float) -> bool:
        """Whether a listener hears, within so many seconds; waits for it."""
        if not listener.echoes:
            return True
        word, until = self.echo(), time.monotonic() + timeout
        while not listener.has_echoed(word) and (left := until - time.monotonic()) > 0:
            readable, _, _ = select.select([listener.fd], [], [], left)
            if readable:
                listener.heard()
        return listener.has_echoed(word)

    def mark(self) -> int:
        """A number that is another one after whatever happened to any job."""
        events = self._database.tables.events

        def unit(connection: Connection) -> int:
            return int(connection.execute(query(func.max(events.c.id))).scalar() or 0)

        return self._database.read(unit)
