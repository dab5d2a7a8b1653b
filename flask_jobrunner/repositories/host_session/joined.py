"""A job's row that joins the host's transaction, and what happens once that has committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.orm import Session, scoped_session

from flask_jobrunner.model.errors import JobRunnerError

from .autocommit import commits_at_once
from .watching import enter, journal_of, unit_of


class SessionRefused(JobRunnerError, ValueError):
    """The session given as `session=` cannot take a job's row into its transaction."""


def join(
    session: scoped_session[Any] | Session,
    engine: Engine,
    table: Table,
    *,
    shared: Engine | Connection | None = None,
) -> Connection:
    """The session's own connection for our table, in its current transaction.

    `engine` is the one that our tables belong to (the host's, or ours with its URL). Begins the
    session's transaction where there is none; makes no savepoint and flushes nothing: objects that
    wait are written by the host's own flush or commit, and an error in them is raised there.
    `shared` is what we write through ourselves, in tests of a host: that is good in any case.
    Raises `SessionRefused` when the session's engine for the table is another one, when it is
    bound to a Connection (its commit may not be the transaction's), and in autocommit mode.
    """
    real = _session_behind(session)
    bind = bind_of(real, table)
    if bind is not shared:
        _check_bind(bind, engine, table)
    connection = real.connection(bind_arguments={"bind": bind})
    if commits_at_once(connection):
        raise SessionRefused(
            "session= needs a transaction, and this session's connection is in autocommit mode."
            " Start without session= instead."
        )
    root = real.get_transaction()
    if root is not None:
        enter(real, root, connection).joined = connection
    return connection


def _check_bind(bind: Engine | Connection, engine: Engine, table: Table) -> None:
    if isinstance(bind, Connection):
        raise SessionRefused(
            "session= needs a session bound to an Engine. This one is bound to a Connection, whose"
            " transaction may go on after the session's commit."
        )
    if not _same_database(bind, engine):
        raise SessionRefused(
            f"session= writes {table.name} to {bind.url!r}, but the jobs are in {engine.url!r}."
            " Give a session of the database that holds the jobs, or start without session=."
        )


def on_root_commit(session: scoped_session[Any] | Session, callback: Callable[[], object]) -> None:
    """Call back once, after the root transaction has committed and given its connection back.

    Comes right after the insert on the connection that `join` gave. Callbacks keep their order.
    None is called when the root rolls back or is closed, or when the savepoint in which it was
    registered is rolled back. An exception in one is logged, never raised into the host's commit.
    """
    unit = unit_of(_session_behind(session))
    if unit is None or unit.joined is None:
        raise RuntimeError("on_root_commit comes after join, in the same transaction.")
    journal = journal_of(unit.joined)
    unit.waiting.append((journal, journal.promise(), callback))


def _session_behind(session: object) -> Session:
    real = session() if isinstance(session, scoped_session) else session
    if not isinstance(real, Session):
        raise SessionRefused(
            "session= takes db.session or another SQLAlchemy Session, not a"
            f" {type(session).__name__}."
        )
    return real


def bind_of(session: Session, table: Table) -> Engine | Connection:
    """Where the session writes this table. Raises `SessionRefused` where it does not know."""
    # An insert, not the table: a session that routes reads to a replica must show where it writes.
    try:
        return session.get_bind(clause=table.insert())
    except UnboundExecutionError as error:
        raise SessionRefused(f"session= is bound to no engine for {table.name}: {error}") from error


def _same_database(found: Engine, ours: Engine) -> bool:
    if found is ours or found.pool is ours.pool:
        return True
    # Every engine of an SQLite database in memory has one of its own.
    in_memory = ours.dialect.name == "sqlite" and ours.url.database in (None, "", ":memory:")
    return found.url == ours.url and not in_memory
