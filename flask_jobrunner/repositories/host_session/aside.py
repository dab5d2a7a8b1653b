"""Stepping out of a session's transaction, for what must outlast it on a connection they share.

Only in tests of a host: there, one connection serves everybody. A view that reads its user and
starts a job has begun a transaction, or set a savepoint, that is rolled back when the request
ends. On a connection of our own that would not touch the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session, scoped_session

from .changes import has_written
from .watching import Share, fresh_journal, unit_of


@contextmanager
def outside(
    session: Session, raw: Any, execute: Callable[[str], None], *, joined: bool
) -> Iterator[None]:
    """End what the session has begun on the DBAPI connection `raw`, and begin it again afterwards.

    Its savepoints are set anew under their names, so neither it nor SQLAlchemy notices. Where the
    session has written, or holds no transaction there, nothing is done. `joined` says that the
    transaction around its savepoints is a test's, and stays.
    """
    share = _share_on(session, raw)
    steps = None if share is None or has_written(session) else _steps(share, raw, joined=joined)
    if share is None or steps is None:
        yield
        return
    end, begin = steps
    for statement in end:
        execute(statement)
    try:
        # What others write meanwhile is not this session's.
        with fresh_journal(share.connection):
            yield
    finally:
        for statement in begin:
            execute(statement)


def _share_on(session: Session, raw: Any) -> Share | None:
    unit = unit_of(session)
    for share in unit.connections if unit else ():
        connection = share.connection
        if connection.closed or connection.invalidated:
            continue
        if connection.connection.dbapi_connection is raw:
            return share
    return None


def _steps(share: Share, raw: Any, *, joined: bool) -> tuple[list[str], list[str]] | None:
    """How to end what is the session's own, and how to begin it again."""
    names = share.savepoints()
    if names is None:
        return None
    again = [f"SAVEPOINT {name}" for name in names]
    if joined:
        return ([f"RELEASE SAVEPOINT {names[0]}"], again) if names else None
    # sqlite3 begins one only when something is written, unless the host has it begin at once.
    return (["COMMIT"], ["BEGIN", *again]) if getattr(raw, "in_transaction", False) else None


@contextmanager
def own_scope(scoped: scoped_session[Any] | Session) -> Iterator[None]:
    """Put the session of this scope aside: what runs inside gets, and loses, one of its own.

    A registry that goes by thread would give a job the session of the view that started it, and
    the end of the job's context would remove that.
    """
    registry: Any = getattr(scoped, "registry", None)
    kept = _session_of(registry)
    if kept is None:
        yield
        return
    registry.clear()
    try:
        yield
    finally:
        left = _session_of(registry)
        if left is not None:
            left.close()
        registry.set(kept)


def _session_of(registry: Any) -> Any:
    try:
        return registry() if registry is not None and registry.has() else None
    except RuntimeError:
        return None  # a scope that only an application context has
