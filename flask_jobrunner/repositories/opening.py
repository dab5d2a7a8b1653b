"""Our place in the host's database: its metadata for our tables, its address for our engine."""

from __future__ import annotations

from typing import Any

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import MetaData

from flask_jobrunner.model.errors import ConfigError

from .database import Database, own_engine
from .tables import Tables


def metadata_of(db: SQLAlchemy, bind_key: str | None) -> MetaData:
    """The metadata of a bind, which the host's migrations read."""
    if bind_key not in db.metadatas:
        # As Flask-SQLAlchemy makes one for the first model of a bind.
        db.metadatas[bind_key] = MetaData(
            naming_convention=db.metadata.naming_convention, info={"bind_key": bind_key}
        )
    return db.metadatas[bind_key]


def open_database(
    app: Flask, db: SQLAlchemy, tables: Tables, *, bind_key: str | None, keep: bool
) -> Database:
    """Our own connections to the host's database; `keep` holds them open between uses.

    Raises `ConfigError` where none is configured.
    """
    with app.app_context():
        try:
            host = db.engines[bind_key]
        except (KeyError, RuntimeError) as error:
            raise ConfigError(
                f"No database is configured for jobs (JOBRUNNER_BIND_KEY is {bind_key!r}): "
                "set SQLALCHEMY_DATABASE_URI, or the bind in SQLALCHEMY_BINDS, and call "
                "db.init_app(app)."
            ) from error
    return Database(own_engine(host, _engine_options(app, db, bind_key), keep=keep), tables)


def _engine_options(app: Flask, db: SQLAlchemy, bind_key: str | None) -> dict[str, Any]:
    """What Flask-SQLAlchemy makes this bind's engine from: no bind gets the default one's."""
    options = dict(getattr(db, "_engine_options", {}))
    if bind_key is None:
        options |= app.config.get("SQLALCHEMY_ENGINE_OPTIONS") or {}
    bind = (app.config.get("SQLALCHEMY_BINDS") or {}).get(bind_key)
    return options | bind if isinstance(bind, dict) else options
