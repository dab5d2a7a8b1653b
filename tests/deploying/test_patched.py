"""An application that patches itself for gevent does so in jobs' processes and supervisors, too."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.helpers.hosts import HostEnvironment
from tests.helpers.supervising import QUICK, ended, supervisors
from tests.host_acts import script

APP = "tests.deploying.patched:create_app"
pytestmark = [
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),
    pytest.mark.parametrize("host_config", [{**QUICK, "JOBRUNNER_APP": APP}]),
]


def test_its_jobs_are_pushed(host_jobs: JobRunner) -> None:
    noisy = script(("print", "hello"), ("program", "echo", "from outside"), ("return", 1))
    result = host_jobs.start("host.script", noisy)
    assert result.status == "started"
    (done,) = ended(host_jobs, result.job)

    assert done.status == "succeeded"
    printed = [line.message for line in host_jobs.status(done.uuid, after_seq=0).logs]
    assert {"hello", "from outside"} <= set(printed)


def test_its_supervisor_works_and_drains(
    host_app: Flask, host_environment: HostEnvironment, host_jobs: JobRunner, tmp_path: Path
) -> None:
    quick = host_jobs.enqueue("host.script", script(("print", "hello"), ("return", 1))).job
    stops = host_jobs.enqueue("host.script", script(("wait_for_cancel",), ("return", 2))).job
    with supervisors(host_app, host_environment, tmp_path) as pull:
        program = [host_environment.command()[0], "-m", "flask_jobrunner", "--app", APP]
        working = pull.work("--slots", 2, "--drain-timeout", 6, argv=[*program, "jobs", "work"])
        working.tells("started", 2)
        working.tells("ended")
        working.send(signal.SIGTERM)
        assert working.exit_code() == 0
    assert [job.status for job in ended(host_jobs, quick, stops)] == ["succeeded", "succeeded"]
