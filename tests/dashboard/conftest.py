"""A host application with pages and without processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import Runtime

LOCAL = {"REMOTE_ADDR": "203.0.113.7"}


@dataclass(frozen=True)
class Host:
    """One host application; every row of its database is the test's."""

    app: Flask
    db: SQLAlchemy
    jobs: JobRunner

    @property
    def runtime(self) -> Runtime:
        runtime: Runtime = self.app.extensions["jobrunner"]
        return runtime

    def client(self) -> FlaskClient:
        """A visitor from another machine."""
        client = self.app.test_client()
        client.environ_base.update(LOCAL)
        return client

    def get(self, path: str = "/", **headers: str) -> Any:
        """One page below the mount."""
        return self.client().get(f"/jobs{path}", headers=headers)

    def poll(self, path: str) -> Any:
        """A fragment, asked for as htmx does."""
        return self.client().get(path, headers={"HX-Request": "true"})


MakeHost = Callable[..., Host]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with our tables: copying it takes a hundredth of making them."""
    file = tmp_path_factory.mktemp("dashboard") / "empty.sqlite"
    app = Flask("maker")
    app.config.update(SQLALCHEMY_DATABASE_URI=f"sqlite:///{file}")
    db = SQLAlchemy(app)
    JobRunner(app, db)
    with app.app_context():
        db.create_all()
        db.engine.dispose()
    return file


@pytest.fixture
def make_host(tmp_path: Path, empty_database: Path) -> Iterator[MakeHost]:
    """Builds hosts, open to everybody unless `authorize` is given; None leaves it out."""
    made: list[Host] = []

    def everybody(action: str, job: object) -> bool:
        return True

    def make(
        *,
        authorize: Any = everybody,
        before: Callable[[Flask], None] | None = None,
        name: str = "shop",
        **config: Any,
    ) -> Host:
        app, file = Flask(name), tmp_path / f"{len(made)}.sqlite"
        shutil.copyfile(empty_database, file)
        app.config.update(
            SECRET_KEY="not a secret",
            SQLALCHEMY_DATABASE_URI=f"sqlite:///{file}",
            JOBRUNNER_APP="shop:create_app",
        )
        app.config.update(config)
        db = SQLAlchemy(app)
        jobs = JobRunner()
        if authorize is not None:
            jobs.authorize(authorize)
        if before is not None:
            before(app)
        jobs.init_app(app, db)
        host = Host(app, db, jobs)
        made.append(host)
        return host

    yield make
    for host in made:
        with host.app.app_context():
            for engine in host.db.engines.values():
                engine.dispose()
            host.runtime.database.engine.dispose()


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host that lets everybody do everything."""
    return make_host()


@pytest.fixture
def app(host: Host) -> Flask:
    """The same, for pytest-flask."""
    return host.app
