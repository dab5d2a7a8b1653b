"""A host's migrations: `flask db migrate` sees our tables, once, and needs nothing of ours."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import JobRunner

ROOT = Path(__file__).parents[1]
TABLES = {
    f"jobrun_{name}"
    for name in ("jobs", "attempts", "logs", "events", "files", "supervisors", "meta")
}
HOST_APP = """
import os

from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import JobRunner

db = SQLAlchemy()
jobs = JobRunner()


class Customer(db.Model):
    id = db.Column(db.Integer, primary_key=True)
    name = db.Column(db.String(80), nullable=False)


def create_app():
    app = Flask(__name__)
    app.config["SQLALCHEMY_DATABASE_URI"] = os.environ["DATABASE_URL"]
    if "JOBS_URL" in os.environ:
        app.config["SQLALCHEMY_BINDS"] = {"jobs": os.environ["JOBS_URL"]}
        app.config["JOBRUNNER_BIND_KEY"] = "jobs"
    db.init_app(app)
    jobs.init_app(app, db)
    Migrate(app, db)
    return app
"""


class Host:
    """A developer's new application in a folder of its own, and its `flask` command."""

    def __init__(self, folder: Path, app_path: str = "shop:create_app", **environment: str) -> None:
        self.folder = folder
        self._app_path = app_path
        (folder / "shop.py").write_text(HOST_APP)
        self._environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment

    def flask(self, *arguments: str) -> str:
        """What the command says; it must succeed."""
        done = subprocess.run(
            [sys.executable, "-m", "flask", "--app", self._app_path, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        return said

    @property
    def migrations(self) -> list[Path]:
        """The generated files."""
        return sorted((self.folder / "migrations" / "versions").glob("*.py"))


def table_names(url: str) -> set[str]:
    """The tables of that database."""
    engine = sa.create_engine(url)
    names = set(sa.inspect(engine).get_table_names())
    engine.dispose()
    return names


def imported(source: Path) -> set[str]:
    """The top-level packages that a Python file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def test_a_new_host_migrates_our_tables_once(tmp_path: Path, database_url: str) -> None:
    host = Host(tmp_path, DATABASE_URL=database_url)
    host.flask("db", "init")
    host.flask("db", "migrate", "-m", "jobs")
    host.flask("db", "upgrade")

    said = host.flask("db", "migrate", "-m", "nothing")

    assert table_names(database_url) == TABLES | {"customer", "alembic_version"}
    assert "No changes in schema detected" in said
    (migration,) = host.migrations
    assert imported(migration) <= {"alembic", "sqlalchemy"}
    host.flask("db", "downgrade")
    assert table_names(database_url) == {"alembic_version"}


def test_with_a_bind_key_our_tables_go_to_that_database(tmp_path: Path, database_url: str) -> None:
    own_url = f"sqlite:///{tmp_path / 'shop.sqlite'}"
    host = Host(tmp_path, DATABASE_URL=own_url, JOBS_URL=database_url)
    host.flask("db", "init", "--multidb")
    host.flask("db", "migrate", "-m", "jobs")
    host.flask("db", "upgrade")

    said = host.flask("db", "migrate", "-m", "nothing")

    assert table_names(own_url) == {"customer", "alembic_version"}
    assert table_names(database_url) == TABLES | {"alembic_version"}
    assert "No changes in schema detected" in said


def test_the_demos_migrations_make_what_its_models_say(tmp_path: Path, database_url: str) -> None:
    demo = Host(
        tmp_path,
        "demo_app:create_app",
        DATABASE_URL=database_url,
        DEMO_INSTANCE=str(tmp_path / "instance"),
    )

    demo.flask("db", "upgrade")

    assert table_names(database_url) >= TABLES | {"demo_imports", "demo_strikes"}
    assert "No new upgrade operations detected" in demo.flask("db", "check")
    demo.flask("db", "downgrade", "base")
    assert table_names(database_url) == {"alembic_version"}


@pytest.mark.parametrize("bind_key", [None, "jobs"])
def test_create_all_creates_our_tables(
    tmp_path: Path, database_url: str, bind_key: str | None
) -> None:
    app = Flask(__name__, instance_path=str(tmp_path))
    own_url = f"sqlite:///{tmp_path / 'shop.sqlite'}" if bind_key else database_url
    app.config.from_mapping(
        SQLALCHEMY_DATABASE_URI=own_url,
        SQLALCHEMY_BINDS={"jobs": database_url},
        JOBRUNNER_BIND_KEY=bind_key,
        JOBRUNNER_APP="shop:create_app",
    )
    db = SQLAlchemy(app)
    JobRunner(app, db)
    with app.app_context():
        db.create_all()
        for engine in db.engines.values():
            engine.dispose()

    assert table_names(database_url) == TABLES
    assert bind_key is None or table_names(own_url) == set()
