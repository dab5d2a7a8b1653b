"""The same job with RQ; `rq_preloaded` is a worker that imports this first."""

from __future__ import annotations

import os

from redis import Redis
from rq import Queue
from rq.job import Job

from benchmarks.peers import application

app = application.create_app()
connection = Redis.from_url(os.environ[application.SERVICE])
STATES = {"queued": "waiting", "started": "running"}


def work(number: int) -> None:
    """The job of all tools."""
    with app.app_context():
        application.work(number)


def prepare() -> None:
    """Nothing is missing."""


def enqueue(number: int) -> str:
    """Put one job into the queue."""
    return str(Queue(connection=connection).enqueue(work, number).id)


def state(reference: str) -> str:
    """`waiting`, `running`, or any other word for a job that is over."""
    found = Job.fetch(reference, connection=connection).get_status(refresh=True).value
    return STATES.get(found, str(found))
