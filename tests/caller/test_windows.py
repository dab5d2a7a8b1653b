"""What works where there are no processes of the Unix kind: jobs are enqueued and shown."""

from __future__ import annotations

import subprocess
import sys

import pytest
from flask import Flask

WITHOUT_UNIX = """
import os, sys
import flask, flask_sqlalchemy
for name in ("fcntl", "termios", "resource", "pwd"):
    sys.modules[name] = None
sys.platform = "win32"
from flask_jobrunner import ConfigError, JobRunner
app = flask.Flask("windows")
app.config["SQLALCHEMY_DATABASE_URI"] = os.environ["HOST_DATABASE_URL"]
db = flask_sqlalchemy.SQLAlchemy(app)
jobs = JobRunner(app, db)
jobs.handler("host.nothing")(lambda ctx: None)
jobs.authorize(lambda action, job: True)
with app.app_context():
    print(jobs.enqueue("host.nothing").status)
    print(jobs.requeue(1).status)
    print(app.test_client().get("/jobs/").status_code)
    try:
        jobs.start("host.nothing")
    except ConfigError as error:
        print("refused:", error)
"""


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """The platform plays the part here, not the database."""
    return sqlite_url


def test_without_what_only_unix_has_jobs_are_enqueued_and_shown(host_app: Flask) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_UNIX],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    enqueued, requeued, page, refused = done.stdout.splitlines()
    assert (enqueued, requeued, page) == ("queued", "not_requeueable", "200")
    assert refused.startswith("refused: jobs.start launches a detached process")
