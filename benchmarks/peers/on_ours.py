"""The application with flask_jobrunner, in its default configuration."""

from __future__ import annotations

from flask import Flask

from benchmarks.peers import application
from flask_jobrunner import JobContext, JobRunner

APP = "benchmarks.peers.on_ours:create_app"
jobs = JobRunner()


@jobs.handler("work")
def work(ctx: JobContext) -> None:
    """The job of all tools."""
    application.work(int(ctx.payload["number"]))


def create_app() -> Flask:
    """The application with its jobs and their tables."""
    app = application.create_app()
    app.config["JOBRUNNER_APP"] = APP
    jobs.init_app(app, application.db)
    return app


def prepare() -> None:
    """Be the web process: its application and the tables."""
    create_app().app_context().push()
    application.db.create_all()


def enqueue(number: int) -> str:
    """Put one job into the queue."""
    return jobs.enqueue("work", {"number": number}).job.uuid


def state(reference: str) -> str:
    """`waiting`, `running`, or any other word for a job that is over."""
    job = jobs.get(reference)
    return "unknown" if job is None else {"queued": "waiting"}.get(job.status, job.status)
