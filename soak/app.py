"""The application of the soak: its handlers keep a ledger that no database can lose or change.

A line is one write to a file opened for appending, and on the disk before the handler goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import JobContext, JobRunner

APP = "soak.app:create_app"
DATABASE = "SOAK_DATABASE_URL"
FOLDER = "SOAK_FOLDER"
SECRET = "hunter-of-the-soak-4711"
"""Printed by handlers as a password: it may stand in no line that is stored or logged."""
LEASE, SLOTS, STANDBY = 6.0, 2, 1
TICK = 0.25

db = SQLAlchemy()
jobs = JobRunner()


def append(path: Path, entry: dict[str, Any], *, durable: bool = True) -> None:
    """Add one line as a whole, between those of other processes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (json.dumps(entry) + "\n").encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _note(ctx: JobContext, what: str) -> None:
    entry = {
        "what": what,
        "uuid": ctx.job_uuid,
        "attempt": ctx.attempt,
        "fence": ctx.fence,
        "pid": os.getpid(),
        "at": time.monotonic(),
        "wall": time.time(),
    }
    append(Path(os.environ[FOLDER], "ledger.jsonl"), entry, durable=what != "alive")


def _work(ctx: JobContext) -> dict[str, int]:
    _note(ctx, "start")
    kind, seconds = ctx.payload["kind"], float(ctx.payload["seconds"])
    print(f"{kind}: password={SECRET}")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(TICK)
        _note(ctx, "alive")
        if kind == "loud":
            print("\n".join(f"line {number} of many" for number in range(200)))
        ctx.progress(int(time.monotonic()), None)
        if kind != "deaf" and ctx.is_cancellation_requested():
            _note(ctx, "stop")
            ctx.raise_if_cancelled()
    _end_badly(kind)
    _note(ctx, "end")
    return {"attempt": ctx.attempt}


def _end_badly(kind: str) -> None:
    if kind == "raise":
        raise RuntimeError(f"on purpose; password={SECRET}")
    if kind == "exit":
        sys.stdout.flush()
        os._exit(0)
    if kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)


@jobs.handler("soak.work", run_budget=40, cancel_grace=3)
def work(ctx: JobContext) -> dict[str, int]:
    """What the payload says."""
    return _work(ctx)


@jobs.handler("soak.again", run_budget=40, cancel_grace=3, restart_interrupted=2)
def again(ctx: JobContext) -> dict[str, int]:
    """The same, and run again when it was interrupted."""
    return _work(ctx)


def create_app() -> Flask:
    """Build the application on the database that the environment names."""
    folder = Path(os.environ[FOLDER])
    app = Flask("soak.app", instance_path=str(folder / "instance"))
    app.config.update(
        SQLALCHEMY_DATABASE_URI=os.environ[DATABASE],
        JOBRUNNER_APP=APP,
        JOBRUNNER_LEASE=LEASE,
        JOBRUNNER_HEARTBEAT=2,
        JOBRUNNER_CLAIM_WINDOW=20,
        JOBRUNNER_IDLE_SLEEP=0.5,
        JOBRUNNER_SLOTS=SLOTS,
        JOBRUNNER_STANDBY=STANDBY,
        JOBRUNNER_DRAIN_TIMEOUT=15,
        JOBRUNNER_SPOOL_DIR=str(folder / "spool"),
    )
    db.init_app(app)
    jobs.init_app(app, db)
    return app
