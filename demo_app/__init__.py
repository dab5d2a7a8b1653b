"""A small Flask application with slow work to do: the host that shows what flask_jobrunner does.

`make demo` runs it. Read `create_app` first, then `views.py` (a view starts a job) and
`handlers/import_csv.py` (what the job does).
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Flask, has_request_context, request

from flask_jobrunner import Job, process_role

from . import visitors
from .extensions import db, jobs

__all__ = ["create_app"]

MIGRATIONS = Path(__file__).parent.parent / "migrations"


def create_app(config: Mapping[str, Any] | None = None) -> Flask:
    """Build the demo; `config` comes last and wins.

    Environment: `DATABASE_URL` (default: an SQLite file in the instance folder),
    `DEMO_INSTANCE` (another instance folder), and `FLASK_…` for any other key. A job's process
    builds the application again with the same call, so what it must know has to come from here.
    """
    app = Flask(__name__, instance_path=_instance_folder())
    Path(app.instance_path).mkdir(parents=True, exist_ok=True)
    app.config.from_mapping(
        SECRET_KEY=_secret_key(Path(app.instance_path) / "secret_key"),
        SQLALCHEMY_DATABASE_URI=_database_url(app),
        SESSION_COOKIE_SAMESITE="Lax",
        JOBRUNNER_APP="demo_app:create_app",
        JOBRUNNER_FILES_DIR="files",  # below the instance folder
        JOBRUNNER_FILE_RETENTION=7 * 24 * 3600,
        JOBRUNNER_FORCE_STOP=True,
        # A little more than a file may have, so that the view can say what the limit is.
        MAX_CONTENT_LENGTH=6 * 1024 * 1024,
    )
    app.config.from_prefixed_env()
    app.config.from_mapping(config or {})

    from . import errors, guard, handlers, models, views  # noqa: F401 - some for what they register

    guard.init_app(app)
    errors.init_app(app)
    db.init_app(app)
    jobs.init_app(app, db)
    app.register_blueprint(views.blueprint)
    _init_migrations(app)
    return app


@jobs.authorize
def allow_this_machine(_action: str, _job: Job | None) -> bool:
    """Everybody on this machine may do everything.

    That is right for a demo which listens on 127.0.0.1 and has no accounts. An application asks
    who it is, for example `return current_user.is_authenticated and current_user.is_admin`; and
    behind a proxy on the same machine every request seems to come from here.
    """
    return request.remote_addr in ("127.0.0.1", "::1")


@jobs.actor
def who_acts() -> str | None:
    """Whoever the browser says it is; in a terminal nobody, and commands name the system's user."""
    return visitors.current() if has_request_context() else None


def _instance_folder() -> str | None:
    folder = os.environ.get("DEMO_INSTANCE")
    return str(Path(folder).absolute()) if folder else None


def _database_url(app: Flask) -> str:
    url = os.environ.get("DATABASE_URL")
    return url or f"sqlite:///{Path(app.instance_path) / 'demo.sqlite'}"


def _secret_key(file: Path) -> str:
    # Every process of the demo has to read the same one.
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as new:
            new.write(secrets.token_hex(32))
    return file.read_text()


def _init_migrations(app: Flask) -> None:
    # Jobs and supervisors never migrate, and Alembic would be a good part of their start-up time.
    if process_role() != "web":
        return
    try:
        from flask_migrate import Migrate
    except ImportError:
        return
    Migrate(app, db, directory=str(MIGRATIONS))
