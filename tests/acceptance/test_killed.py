"""`kill -9` of a running job: within three seconds anybody who looks is told of signal 9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flask_jobrunner import Job, JobRunner
from tests.helpers.commands import Commands
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import children_of, is_running, zombies_of
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow

ACTS = script(("print", "my last words"), ("pause", 600))
STARTER = Path(__file__).with_name("starter.py")
SECONDS = 3.0
CALM_BOOT = 0.8
"""Seconds in which an idle machine builds the application once, as who records the end has to."""


def seconds_here(environment: HostEnvironment) -> float:
    """Three seconds, or more where this machine is so busy that a mere start takes long."""
    before = time.monotonic()
    subprocess.run(
        environment.command("jobs", "list"),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the kernel shares processors between sessions
    )
    return SECONDS * max(1.0, (time.monotonic() - before) / CALM_BOOT)


def kill_the_job(commands: Commands, job: Job) -> int:
    """`kill -9` of the job's own process, once it has said its words; its parent's pid."""

    def said() -> bool:
        return "my last words" in commands("logs", job.uuid).out

    eventually(said, timeout=60)
    (attempt,) = commands("show", job.uuid, "--json").json()["attempts"]
    os.kill(attempt["worker"]["pid"], signal.SIGKILL)
    return int(attempt["parent"]["pid"])


def is_told(commands: Commands, jobs: JobRunner, job: Job, limit: float) -> None:
    """The row says it within `limit`, and so does the command, with the last words."""

    def told() -> bool:
        message = jobs.status(job.uuid).job.error_message or ""  # type: ignore[union-attr]
        return "signal 9 (SIGKILL)" in message

    eventually(told, timeout=limit, message=lambda: commands("show", job.uuid).out)
    shown = commands("show", job.uuid)
    now = jobs.get(job.uuid)

    assert now is not None
    assert (now.status, now.error_reason_code) == ("interrupted", "process_died")
    assert shown.out.startswith("Interrupted after ")
    assert "killed by signal 9 (SIGKILL)" in shown.out
    assert "my last words" in shown.out
    assert commands("logs", job.uuid).out.count("my last words") == 1


def test_with_the_launcher_alive(
    commands: Commands, host_jobs: JobRunner, host_environment: HostEnvironment
) -> None:
    limit = seconds_here(host_environment)
    job = host_jobs.start("host.script", ACTS, lock_key="k").job
    parent = kill_the_job(commands, job)
    is_told(commands, host_jobs, job, limit)

    assert host_jobs.find(lock_key="k").jobs == []
    eventually(lambda: not is_running(parent))
    eventually(lambda: zombies_of(os.getpid()) == [])


@pytest.mark.parametrize("launcher", ["killed", "ended"])
def test_with_the_launcher_dead(
    commands: Commands, host_jobs: JobRunner, host_environment: HostEnvironment, launcher: str
) -> None:
    limit = seconds_here(host_environment)
    if launcher == "ended":
        answer = commands.process("start", "host.script", "--payload", json.dumps(ACTS), "--json")
        uuid = answer.json()["job"]["uuid"]
    else:
        uuid = _started_by_a_process_that_is_killed(host_environment)
    job = host_jobs.get(uuid)
    assert job is not None
    parent = kill_the_job(commands, job)
    is_told(commands, host_jobs, job, limit)

    eventually(lambda: not is_running(parent), timeout=60)


def _started_by_a_process_that_is_killed(environment: HostEnvironment) -> str:
    process = subprocess.Popen(
        [sys.executable, str(STARTER), "hold", json.dumps(ACTS)],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(environment.environ),
    )
    with process:
        assert process.stdout is not None
        uuid = str(json.loads(process.stdout.readline())["uuid"])
        assert children_of(process.pid)
        process.kill()
    return uuid
