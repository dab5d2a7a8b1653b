"""The same job with Procrastinate on PostgreSQL, in whose worker a job is a thread."""

from __future__ import annotations

import os

from procrastinate import App, PsycopgConnector

from benchmarks.peers import application

flask_app = application.create_app()
app = App(connector=PsycopgConnector(conninfo=os.environ[application.SERVICE]))


def work(number: int) -> None:
    """The job of all tools."""
    with flask_app.app_context():
        application.work(number)


task = app.task(name="work")(work)
STATES = {"todo": "waiting", "doing": "running"}


def prepare() -> None:
    """Be the web process: a connection pool without asyncio, and the tables."""
    app.open()
    app.schema_manager.apply_schema()


def enqueue(number: int) -> str:
    """Put one job into the queue."""
    return str(task.defer(number=number))


def state(reference: str) -> str:
    """`waiting`, `running`, or any other word for a job that is over."""
    found = app.job_manager.get_job_status(int(reference)).value
    return STATES.get(found, str(found))
