"""A host application with two databases, and a table that stands for the jobs'."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner.repositories.host_session import join, on_root_commit, watch


@dataclass
class Shop:
    """The host: `Order` in its database, `Note` in another, and our own engine beside it."""

    app: Flask
    db: SQLAlchemy
    order: type[Any]
    note: type[Any]
    jobs: sa.Table
    ours: sa.Engine

    def committed(self) -> list[str]:
        """The names of all orders that another connection sees."""
        with self.ours.connect() as connection:
            return sorted(connection.scalars(sa.select(self.order.__table__.c.name)))

    def jobs_seen(self) -> list[str]:
        """The jobs that another connection sees."""
        with self.ours.connect() as connection:
            return sorted(connection.scalars(sa.select(self.jobs.c.name)))

    def start(self, name: str, called: list[str], session: Any = None) -> None:
        """Insert a job in the session's transaction, and note when it may be launched."""
        session = self.db.session if session is None else session
        connection = join(session, self.ours, self.jobs)
        connection.execute(self.jobs.insert().values(name=name))
        on_root_commit(session, lambda: called.append(name))


@pytest.fixture
def shop(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A shop with one order, called `first`, inside its application context."""
    app = Flask(__name__, instance_path=str(tmp_path))
    app.config["SQLALCHEMY_DATABASE_URI"] = database_url
    app.config["SQLALCHEMY_BINDS"] = {"notes": f"sqlite:///{tmp_path / 'notes.sqlite'}"}
    watch()
    db = SQLAlchemy()

    class Order(db.Model):  # type: ignore[name-defined,misc]
        __tablename__ = "orders"
        id = sa.Column(sa.Integer, primary_key=True)
        name = sa.Column(sa.String(50), unique=True)

    class Note(db.Model):  # type: ignore[name-defined,misc]
        __bind_key__ = "notes"
        id = sa.Column(sa.Integer, primary_key=True)
        name = sa.Column(sa.String(50))

    jobs = sa.Table("jobs", db.metadata, sa.Column("name", sa.String(50), primary_key=True))
    db.init_app(app)
    ours = sa.create_engine(database_url, poolclass=sa.NullPool)
    with app.app_context():
        db.create_all()
        db.session.add(Order(name="first"))
        db.session.commit()
        yield Shop(app, db, Order, Note, jobs, ours)
        db.session.remove()
        for engine in db.engines.values():
            engine.dispose()
