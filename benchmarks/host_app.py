"""The measured application: as small as an application with a database is."""

from __future__ import annotations

import os
import time

import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import JobContext, JobRunner

APP = "benchmarks.host_app:create_app"
DATABASE = "BENCHMARK_DATABASE_URL"
IDLE_SLEEP = "BENCHMARK_IDLE_SLEEP"

db = SQLAlchemy()
jobs = JobRunner()


@jobs.handler("nothing")
def nothing(ctx: JobContext) -> None:
    """The job whose whole cost is the runner's."""


@jobs.handler("when-warm")
@jobs.handler("when-new")
def tell_when(_: JobContext) -> int:
    """The time at its first line."""
    return time.time_ns()


@jobs.handler("print-lines")
def print_lines(ctx: JobContext) -> int:
    """Print `lines` lines as fast as Python can."""
    lines = int(ctx.payload["lines"])
    for number in range(lines):
        print(f"line {number}: the quick brown fox jumps over the lazy dog")
    return lines


def create_app() -> Flask:
    """Build the application on the database that the environment names."""
    app = Flask(__name__)
    app.config.update(SQLALCHEMY_DATABASE_URI=os.environ[DATABASE], JOBRUNNER_APP=APP)
    if IDLE_SLEEP in os.environ:
        app.config["JOBRUNNER_IDLE_SLEEP"] = float(os.environ[IDLE_SLEEP])
    db.init_app(app)
    jobs.init_app(app, db)

    @app.cli.command("noop-with-one-query")
    def noop() -> None:
        db.session.execute(sa.text("SELECT 1"))

    return app
