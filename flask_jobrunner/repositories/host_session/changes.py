"""The uncommitted-changes rule: what a session holds that a job could not see."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, inspect
from sqlalchemy.orm import Session, scoped_session

from .autocommit import nothing_open
from .statements import headline
from .watching import journal_of, unit_of

logger = logging.getLogger("flask_jobrunner")

_NAMED = 5


@dataclass(frozen=True)
class Uncommitted:
    """What `db.session` holds that is not committed."""

    objects: tuple[str, ...] = ()
    """Up to five objects not flushed yet: `<Order 7>`, `<Order (new)>`, `<Order 7 (deleted)>`."""
    more: int = 0
    """How many further objects there are."""
    statement: str | None = None
    """The first line of the last statement that wrote, without the text of its literals."""

    @property
    def what(self) -> str:
        """The objects and the statement, as a list in words."""
        found = list(self.objects)
        if self.more:
            found.append(f"{self.more} more")
        if self.statement is not None:
            found.append(f"the statement {self.statement}")
        return ", ".join(found)

    @property
    def message(self) -> str:
        """What it is, and the line to write."""
        return (
            f"db.session holds changes that are not committed: {self.what}."
            " The job could not see them, or would run although they are rolled back."
            " Call db.session.commit() before jobs.start(...), or pass session=db.session:"
            " then the job starts with that commit."
        )


def uncommitted(session: scoped_session[Any] | Session) -> Uncommitted | None:
    """What the session holds that is not committed, or None.

    Objects that are new, deleted or really modified (the same value set again is no change), and
    writes that were executed in its transaction and not undone. Emits no SQL, flushes nothing,
    begins nothing, makes no session where there is none, and never raises.
    """
    try:
        real = existing_session(session)
        return None if real is None else _held_by(real)
    except Exception:
        logger.exception("Whether the session holds uncommitted changes could not be told.")
        return None


def has_written(session: Session) -> bool:
    """Whether the session has executed a write in its transaction that still stands.

    What it has not flushed yet does not count. Never raises: in doubt it has.
    """
    try:
        return _last_write(session) is not None
    except Exception:
        logger.exception("Whether the session has written could not be told.")
        return True


def existing_session(session: object) -> Session | None:
    """The session behind a scoped one, or None when it has not been made."""
    if isinstance(session, scoped_session):
        return _session_in(session)
    return session if isinstance(session, Session) else None


def _session_in(scoped: scoped_session[Any]) -> Session | None:
    try:
        found = scoped() if scoped.registry.has() else None
    except RuntimeError:
        # Flask-SQLAlchemy's scope is the application context: outside of one there is none.
        return None
    return found if isinstance(found, Session) else None


def _held_by(session: Session) -> Uncommitted | None:
    held = [
        *((instance, "new") for instance in session.new),
        *((instance, "") for instance in session.dirty if _is_modified(session, instance)),
        *((instance, "deleted") for instance in session.deleted),
    ]
    statement = _last_write(session)
    if not held and statement is None:
        return None
    names = tuple(_name(instance, suffix) for instance, suffix in held[:_NAMED])
    return Uncommitted(names, len(held) - len(names), statement)


def _is_modified(session: Session, instance: object) -> bool:
    try:
        return session.is_modified(instance)
    except Exception:  # noqa: BLE001 - an attribute's own comparison may raise anything
        return True


def _name(instance: object, suffix: str) -> str:
    # Not the object's repr: it may load what has expired.
    words = [type(instance).__name__]
    identity = inspect(instance).identity
    if identity is not None:
        words.append(", ".join(_clip(repr(value)) for value in identity))
    if suffix:
        words.append(f"({suffix})")
    return f"<{' '.join(words)}>"


def _clip(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _last_write(session: Session) -> str | None:
    unit = unit_of(session)
    for share in unit.connections if unit else ():
        statement = _standing_write(share.connection, share.since)
        if statement is not None:
            return headline(statement)
    return None


def _standing_write(connection: Connection, since: int) -> str | None:
    statement = journal_of(connection).written_since(since)
    return None if statement is None or nothing_open(connection) else statement
