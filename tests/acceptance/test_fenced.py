"""A process whose job was taken from it stops by itself, whatever its handler goes on to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.recovery.verdict import lost
from flask_jobrunner.runtime import Runtime
from tests.helpers.processes import is_running
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow
SLEEP = "sleep 601"


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_HEARTBEAT": 0.5, "JOBRUNNER_LEASE": 3}


def started(jobs: JobRunner, folder: Path) -> Job:
    """A job that ignores everything, with a program of its own beside it."""
    pid_file = folder / "program"
    acts = script(
        ("program", "sh", "-c", f"{SLEEP} & echo $! > {pid_file}"),
        ("ignore_signals",),
        ("print", "busy"),
        ("pause", 600),
    )
    job = jobs.start("host.script", acts).job
    eventually(lambda: pid_file.exists() and pid_file.read_text().strip(), timeout=60)
    return job


def test_a_worker_that_was_given_up_ends_with_a_code_of_its_own(
    host_app: Flask, host_jobs: JobRunner, tmp_path: Path
) -> None:
    runtime: Runtime = host_app.extensions["jobrunner"]
    job = started(host_jobs, tmp_path)
    owned = runtime.jobs.owned(job.id)
    assert owned is not None
    worker, program = owned.worker.pid, int((tmp_path / "program").read_text())
    assert worker is not None

    def given_up() -> bool:
        seen = runtime.jobs.owned(job.id)
        assert seen is not None
        return runtime.endings.end_dead(seen, lost(seen, 18.0))

    # A renewal in between saves the job; so again.
    eventually(given_up, timeout=60)

    eventually(lambda: not is_running(worker), timeout=60, message="the worker has stopped")
    eventually(lambda: runtime.attempts.of(job.id)[0].exit_code is not None, timeout=60)
    assert runtime.attempts.of(job.id)[0].exit_code == ExitCode.REFUSED
    eventually(lambda: not is_running(program), timeout=10, message="its program has, too")
    now = host_jobs.get(job.id)
    assert now is not None
    assert now.status == "lost"
