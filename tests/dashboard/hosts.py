"""Host applications with pages and without processes, for the pages' and the browser's tests."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import Runtime

ELSEWHERE = {"REMOTE_ADDR": "203.0.113.7"}

MakeHost = Callable[..., "Host"]


@dataclass(frozen=True)
class Host:
    """One host application; every row of its database is the test's."""

    app: Flask
    db: SQLAlchemy
    jobs: JobRunner

    @property
    def runtime(self) -> Runtime:
        """The application's runtime."""
        runtime: Runtime = self.app.extensions["jobrunner"]
        return runtime

    def client(self) -> FlaskClient:
        """A visitor from another machine."""
        client = self.app.test_client()
        client.environ_base.update(ELSEWHERE)
        return client

    def get(self, path: str = "/") -> Any:
        """One page below the mount."""
        return self.client().get(f"/jobs{path}")

    def poll(self, path: str) -> Any:
        """A fragment, asked for as htmx does."""
        return self.client().get(path, headers={"HX-Request": "true"})

    def close(self) -> None:
        """Let go of the database."""
        with self.app.app_context():
            for engine in self.db.engines.values():
                engine.dispose()
        self.runtime.database.engine.dispose()


def everybody(action: str, job: object) -> bool:
    """An `authorize` that refuses nothing."""
    return True


def make_empty_database(file: Path) -> Path:
    """An SQLite file with our tables: copying it takes a hundredth of making them."""
    app = Flask("maker")
    app.config.update(SQLALCHEMY_DATABASE_URI=f"sqlite:///{file}")
    db = SQLAlchemy(app)
    JobRunner(app, db)
    with app.app_context():
        db.create_all()
        db.engine.dispose()
    return file


@contextlib.contextmanager
def host_factory(folder: Path, empty_database: Path) -> Iterator[MakeHost]:
    """Builds hosts, open to everybody unless `authorize` is given; None leaves it out."""
    made: list[Host] = []

    def make(
        *,
        authorize: Any = everybody,
        before: Callable[[Flask], None] | None = None,
        name: str = "shop",
        **config: Any,
    ) -> Host:
        app, file = Flask(name), folder / f"{len(made)}.sqlite"
        shutil.copyfile(empty_database, file)
        app.config.update(
            SECRET_KEY="not a secret",
            SQLALCHEMY_DATABASE_URI=f"sqlite:///{file}",
            JOBRUNNER_APP="shop:create_app",
        )
        app.config.update(config)
        db, jobs = SQLAlchemy(app), JobRunner()
        if authorize is not None:
            jobs.authorize(authorize)
        if before is not None:
            before(app)
        jobs.init_app(app, db)
        made.append(Host(app, db, jobs))
        return made[-1]

    try:
        yield make
    finally:
        for host in made:
            host.close()
