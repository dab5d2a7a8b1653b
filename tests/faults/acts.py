"""Handlers of these tests; imported only by the processes of their jobs."""

from __future__ import annotations

import contextlib
import importlib
import time
from pathlib import Path
from typing import Any

from sqlalchemy.exc import IntegrityError

from flask_jobrunner import JobContext


def break_the_session(_ctx: JobContext) -> int:
    """Leave the host's session in a failed transaction, and its engine without connections."""
    from tests.host_app import Entry, db

    db.session.add(Entry(id=1, name="first"))
    db.session.commit()
    db.session.add(Entry(id=1, name="second"))
    with contextlib.suppress(IntegrityError):
        db.session.flush()
    db.engine.dispose()
    return 5


def start_the_same(ctx: JobContext) -> dict[str, Any]:
    """Start and enqueue a job of the lock key that this one holds."""
    from tests.host_app import jobs

    key = ctx.payload["key"]
    started = jobs.start("host.nothing", lock_key=key)
    queued = jobs.enqueue("host.nothing", lock_key=key)
    return {
        "status": [started.status, queued.status],
        "job": [result.job.uuid for result in (started, queued)],
    }


def import_late(ctx: JobContext) -> None:
    """Import a module after a file has appeared."""
    while not Path(ctx.payload["go"]).exists():
        time.sleep(0.02)
    importlib.import_module(ctx.payload["module"])


def flood(ctx: JobContext) -> None:
    """Print thousands of lines a second from the moment a file appears until another one does."""
    while not Path(ctx.payload["go"]).exists():
        time.sleep(0.02)
    while not Path(ctx.payload["over"]).exists():
        for number in range(100):
            print("x" * 80, number)
        time.sleep(0.01)
