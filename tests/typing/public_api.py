"""The public API as a host application writes it: type-checked, never run."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, assert_type

from flask import Flask, Response, request
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import (
    Job,
    JobCancelled,
    JobContext,
    JobNotFound,
    JobRunner,
    JobRunnerError,
    JobStatus,
    process_role,
)
from flask_jobrunner.testing import FakeContext, FakeProgram, RecordedJob, RecordedJobs, job_mode

db = SQLAlchemy()
jobs = JobRunner(db=db)


@dataclass
class Report:
    """What a payload is turned into."""

    month: int


def report(payload: dict[str, object]) -> Report:
    """Any callable that takes the mapping will do."""
    return Report(month=int(str(payload["month"])))


@jobs.handler("reports.build", title="Build report", payload=report, run_budget=3600)
def build(ctx: JobContext) -> object:
    """A function of the context."""
    ctx.set_step("read", "Reading", 1, 2)
    for row in ctx.track(range(3), "rows"):
        assert_type(row, int)
        ctx.info("A row", number=row)
    ctx.progress(3, 3, label="rows")
    text = ctx.file("in.csv").read_text("utf-8")
    assert_type(text, str)
    with (
        ctx.artifact("out.csv", encoding="utf-8") as out,
        ctx.artifact("a.png", "image/png") as png,
    ):
        out.write(text)
        assert_type(png.write(b"x"), int)
    if ctx.is_cancellation_requested():
        raise JobCancelled
    ctx.raise_if_cancelled()
    return {"app": ctx.app.name, "attempt": ctx.attempt}


@jobs.handler("reports.send", cancel_grace=5)
class Send:
    """A class with `run(ctx)`."""

    def run(self, ctx: JobContext) -> object:
        """Do it."""
        ctx.check()
        return None


@jobs.authorize
def may(action: str, job: Job | None) -> bool | Response:
    """Who may see and do what."""
    return action == "view_list" or job is not None


@jobs.actor
def who() -> str | None:
    """Who acts."""
    return "ada"


@jobs.scope
def only_mine() -> str | None:
    """Whose jobs are seen."""
    return None


def create_app() -> Flask:
    """Both orders of arguments, both ways to initialise."""
    app = Flask(__name__)
    db.init_app(app)
    jobs.init_app(app, db)
    return app


def view() -> str:
    """What a view does."""
    result = jobs.start("reports.build", {"month": 5}, lock_key="may", owner="ada", wait=2.5)
    assert_type(result.status, Literal["started", "launching", "already_active", "launch_failed"])
    assert_type(result.ok, bool)
    assert_type(result.job, Job)
    queued = jobs.enqueue("reports.build", priority=5, not_before=datetime.now(UTC), owner="ada")
    assert_type(queued.status, Literal["queued", "already_active"])
    jobs.start("reports.build", files={"in.csv": b"a,b", "x": Path("/tmp/x"), "y": io.BytesIO()})
    jobs.enqueue("reports.build", files={"in.csv": "/tmp/in.csv", "up": request.files["up"]})
    assert_type(queued.job, Job)
    assert_type(jobs.requeue(queued.job.uuid, delay=timedelta(minutes=5)).ok, bool)
    job = jobs.get(result.job.uuid)
    assert_type(job, Job | None)
    status = jobs.status(result.job.id, after_seq=0, limit=10)
    for file in status.artifacts:
        assert_type(file.name, str)
        assert_type(file.kind, Literal["input", "output"])
        assert_type(file.expired_at, datetime | None)
        assert_type(file.to_dict(), dict[str, Any])
    assert_type(status.last_log_seq, int)
    page = jobs.find(status=JobStatus.RUNNING, owner="ada")
    assert_type(page.next_cursor, str | None)
    assert_type(jobs.get_many([result.job.uuid]), dict[str, Job])
    cancelled = jobs.cancel(result.job.uuid, actor="ada")
    assert_type(cancelled.to_dict(), dict[str, Any])
    ended = jobs.wait(result.job.uuid, 10)
    assert_type(ended.is_terminal, bool)
    assert_type(ended.progress_done, int | None)
    assert_type(jobs.recorded("reports.build"), list[RecordedJob])
    assert_type(process_role(), Literal["web", "supervisor", "standby", "job"])
    return jobs.url_for(ended.uuid)


def tests(app: Flask, handler: Callable[[JobContext], int]) -> None:
    """What a test of the host does."""
    ctx = FakeContext({"month": 5}, app=app, programs={"lpr": FakeProgram(returncode=1)})
    assert_type(handler(ctx), int)
    assert_type(ctx.messages("warning"), list[str])
    assert_type(FakeContext(app=app, files={"in.csv": b"a"}).artifacts, dict[str, bytes])
    with job_mode(app, "inline") as recorded:
        assert_type(recorded, RecordedJobs)
        assert_type(recorded.only("reports.build").job, Job)


def errors() -> None:
    """One root for all."""
    error: JobRunnerError = JobNotFound()
    raise error
