"""Our place in the host's database: its metadata for our tables, its address for our engine."""

from __future__ import annotations

import contextlib
from typing import Any

from flask import Flask, current_app, has_app_context
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy.session import Session as FlaskSession
from sqlalchemy import Connection, Engine, MetaData
from sqlalchemy.orm import Session

from flask_jobrunner.model.errors import ConfigError

from .borrowed import SharedDatabase
from .database import Database, own_engine
from .host_session import SessionRefused, bind_of, existing_session
from .tables import Tables

IN_TESTS = 'In tests, set app.config["JOBRUNNER_MODE"] = "record", or "inline", before init_app.'
ONE_CONNECTION = (
    'JOBRUNNER_MODE is "process", and db.session writes to one Connection instead of an engine: '
    f"what a test rolls back, no other process can see. {IN_TESTS}"
)


def metadata_of(db: SQLAlchemy, bind_key: str | None) -> MetaData:
    """The metadata of a bind, which the host's migrations read."""
    if bind_key not in db.metadatas:
        # As Flask-SQLAlchemy makes one for the first model of a bind.
        db.metadatas[bind_key] = MetaData(
            naming_convention=db.metadata.naming_convention, info={"bind_key": bind_key}
        )
    return db.metadatas[bind_key]


def open_database(
    app: Flask, db: SQLAlchemy, tables: Tables, *, bind_key: str | None, keep: bool, shared: bool
) -> Database:
    """Our own connections to the host's database; `keep` holds them open between uses.

    `shared` is for a host's tests: there, its own connection where it keeps to one. Raises
    `ConfigError` where no database is configured, or where only `shared` could work.
    """
    place = _Place(app, db, tables, bind_key)

    def own(host: Engine) -> Engine:
        return own_engine(host, _engine_options(app, db, bind_key), keep=keep)

    if shared:
        return SharedDatabase(place.find, own, place.session, tables)
    host = place.engine()
    if isinstance(host, Connection):
        raise ConfigError(ONE_CONNECTION)
    return Database(own(host), tables, find=place.find)


class _Place:
    """Where the host's session writes our tables, at any one moment."""

    def __init__(self, app: Flask, db: SQLAlchemy, tables: Tables, bind_key: str | None) -> None:
        self._app, self._db, self._bind_key = app, db, bind_key
        self._table = tables.jobs

    def session(self) -> Session | None:
        """The host's session in this context, if it has been made."""
        return existing_session(self._db.session)

    def find(self) -> Engine | Connection:
        """What its session is bound to; without a session, the bind's engine."""
        session = self.session()
        if session is not None:
            with contextlib.suppress(SessionRefused):
                return bind_of(session, self._table)
        return self._made_for() or self.engine()

    def _made_for(self) -> Connection | None:
        """The connection for which a test's fixture makes sessions."""
        factory = getattr(self._db.session, "session_factory", None)
        bind = getattr(factory, "kw", {}).get("bind")
        # Flask-SQLAlchemy's own sessions go by the engines, whatever they are bound to.
        by_engines = issubclass(getattr(factory, "class_", Session), FlaskSession)
        return bind if isinstance(bind, Connection) and not by_engines else None

    def engine(self) -> Engine | Connection:
        """The bind's engine, or what a test's fixture has put there. Raises `ConfigError`."""
        # No context beside one that is there: its end would remove a session that goes by thread.
        active = has_app_context() and current_app == self._app
        with contextlib.nullcontext() if active else self._app.app_context():
            try:
                return self._db.engines[self._bind_key]
            except (KeyError, RuntimeError) as error:
                raise ConfigError(
                    f"No database is configured for jobs (JOBRUNNER_BIND_KEY is "
                    f"{self._bind_key!r}): set SQLALCHEMY_DATABASE_URI, or the bind in "
                    "SQLALCHEMY_BINDS, and call db.init_app(app)."
                ) from error


def _engine_options(app: Flask, db: SQLAlchemy, bind_key: str | None) -> dict[str, Any]:
    """What Flask-SQLAlchemy makes this bind's engine from: no bind gets the default one's."""
    options = dict(getattr(db, "_engine_options", {}))
    if bind_key is None:
        options |= app.config.get("SQLALCHEMY_ENGINE_OPTIONS") or {}
    bind = (app.config.get("SQLALCHEMY_BINDS") or {}).get(bind_key)
    return options | bind if isinstance(bind, dict) else options
