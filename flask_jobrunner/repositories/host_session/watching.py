"""Watches every session's connections for what is written on them.

Two kinds of listeners, set once for the whole process: on the dialects, just before a cursor
executes, because that is the only place every write passes; and on `Session`, where transactions
begin and end. Listeners on the engines' connections would cost every statement of the host some
six microseconds, these cost less than one. Savepoints are read from the statements too, so one
that was opened on the connection, or by hand, counts like one of the session's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session, SessionTransaction

from .journal import Journal
from .statements import effect_of

logger = logging.getLogger("flask_jobrunner")

_KEY = "flask_jobrunner.unit"
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Share:
    """What a session's root transaction has of one connection."""

    connection: Connection
    since: int
    """The number that tells its writes from older ones."""
    level: int
    """How many levels of the connection are not the session's: its transaction, then savepoints."""

    def savepoints(self) -> list[str] | None:
        """The names of the session's own savepoints, in order; None where one is not known."""
        names = journal_of(self.connection).savepoints()[self.level :]
        return names if all(names) and self.level > 0 else None


@dataclass(slots=True)
class Unit:
    """One root transaction of a session: its connections, and what waits for its commit."""

    transaction: SessionTransaction
    connections: list[Share] = field(default_factory=list)
    joined: Connection | None = None
    waiting: list[tuple[Journal, int, Callable[[], object]]] = field(default_factory=list)
    committed: bool = False


_journals: WeakKeyDictionary[Connection, Journal] = WeakKeyDictionary()


def watch(*, savepoints: bool = False) -> None:
    """Set the listeners, once for the process. What ran before the first call was not seen.

    `savepoints` also sees those that were set before a session began: for hosts' tests only, as it
    costs every statement what listeners on the dialects alone do not.
    """
    with _lock:
        if savepoints:
            _listen(Engine, "savepoint", _before_savepoint)
        _listen(Engine, "do_execute", _before_execute)
        _listen(Engine, "do_executemany", _before_execute)
        _listen(Engine, "do_execute_no_params", _before_bare_execute)
        _listen(Session, "after_begin", _after_begin)
        _listen(Session, "after_commit", _after_commit)
        _listen(Session, "after_transaction_end", _after_transaction_end)


def _listen(target: type, name: str, listener: Callable[..., None]) -> None:
    if not event.contains(target, name, listener):
        event.listen(target, name, listener)


def unit_of(session: Session) -> Unit | None:
    """The session's current root transaction, if it has a connection."""
    unit = session.info.get(_KEY)
    if isinstance(unit, Unit) and unit.transaction is session.get_transaction():
        return unit
    return None


def journal_of(connection: Connection) -> Journal:
    """The connection's journal, made when there is none."""
    journal = _journals.get(connection)
    if journal is None:
        journal = _journals[connection] = Journal()
    return journal


def enter(session: Session, root: SessionTransaction, connection: Connection) -> Unit:
    """The unit of the session's root transaction, with this connection in it."""
    unit = session.info.get(_KEY)
    if not isinstance(unit, Unit) or unit.transaction is not root:
        unit = session.info[_KEY] = Unit(root)
    if all(known.connection is not connection for known in unit.connections):
        unit.connections.append(_share(session, connection))
    return unit


def _share(session: Session, connection: Connection) -> Share:
    journal = journal_of(connection)
    by_savepoint = connection.in_nested_transaction() and session.join_transaction_mode in (
        "create_savepoint",
        "conditional_savepoint",
    )
    return Share(connection, journal.begin(), len(journal.savepoints()) - int(by_savepoint))


@contextmanager
def fresh_journal(connection: Connection) -> Iterator[None]:
    """Have what others do on this connection forgotten in the end."""
    kept = journal_of(connection)
    _journals[connection] = Journal()
    try:
        yield
    finally:
        _journals[connection] = kept


def _before_savepoint(connection: Connection, _name: str | None) -> None:
    journal_of(connection)


def _before_execute(_cursor: Any, statement: str, _parameters: Any, context: Any) -> None:
    journal = _journals.get(context.root_connection)
    if journal is not None:
        effect = effect_of(statement)
        if effect is not None:
            journal.note(effect, statement)


def _before_bare_execute(_cursor: Any, statement: str, context: Any) -> None:
    _before_execute(_cursor, statement, None, context)


def _after_begin(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
    # A nested transaction uses a connection that its root was given before.
    if transaction.parent is None:
        enter(session, transaction, connection)


def _after_commit(session: Session) -> None:
    # It also fires when a savepoint is released, while that is still the nested transaction.
    unit = session.info.get(_KEY)
    if unit is not None and session.get_nested_transaction() is None:
        unit.committed = True


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is not None:
        return
    unit = session.info.get(_KEY)
    if not isinstance(unit, Unit) or unit.transaction is not transaction:
        return
    del session.info[_KEY]
    if unit.committed:
        _keep_promises(unit)


def _keep_promises(unit: Unit) -> None:
    for journal, number, callback in unit.waiting:
        if journal.keeps(number):
            try:
                callback()
            except Exception:
                # The host's commit has succeeded and must not look as if it had failed.
                logger.exception("What waited for the commit of a session failed after it.")
