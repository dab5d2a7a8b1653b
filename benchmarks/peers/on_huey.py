"""The same job with Huey, on Redis or on an SQLite file."""

from __future__ import annotations

import os

from huey import RedisHuey, SqliteHuey

from benchmarks.peers import application

app = application.create_app()
service = os.environ[application.SERVICE]
huey = RedisHuey(url=service) if service.startswith("redis:") else SqliteHuey(filename=service)


def work(number: int) -> None:
    """The job of all tools."""
    with app.app_context():
        application.work(number)


task = huey.task()(work)


def prepare() -> None:
    """Nothing is missing."""


def enqueue(number: int) -> str:
    """Put one task into the queue."""
    return str(task(number).id)


def state(_: str) -> str:
    """Huey keeps no states."""
    return "unknown"
