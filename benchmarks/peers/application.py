"""The measured application and its one job, the same for every tool. It knows none of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import sqlalchemy as sa
from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy

MARKS = "PEERS_MARKS"
PAUSE = "PEERS_PAUSE"
DATABASE = "PEERS_DATABASE_URL"
SERVICE = "PEERS_SERVICE_URL"

db = SQLAlchemy()


def create_app() -> Flask:
    """Build the application on the database that the environment names."""
    app = Flask(__name__)
    app.config.update(
        SQLALCHEMY_DATABASE_URI=os.environ[DATABASE],
        MARKS=os.environ[MARKS],
        PAUSE=float(os.environ.get(PAUSE, "0")),
    )
    db.init_app(app)

    @app.cli.command("noop-with-one-query")
    def noop() -> None:
        db.session.execute(sa.text("SELECT 1"))

    return app


def work(number: int) -> None:
    """Mark the time at the first line and at the last; between them pause, as the settings say."""
    began = time.time_ns()
    marks = Path(current_app.config["MARKS"])
    _mark(marks, f"{number} began {began} {os.getpid()}\n")
    if pause := current_app.config["PAUSE"]:
        time.sleep(pause)
    _mark(marks, f"{number} ended {time.time_ns()} {os.getpid()}\n")


def _mark(marks: Path, line: str) -> None:
    # One write each, at the end: many processes share the file, and one may be killed any time.
    file = os.open(marks, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
