"""The stack of a job that hangs: on request, and before it is ended for that."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.recovery.stack import stack_of
from flask_jobrunner.runtime import Runtime
from tests.helpers.commands import Commands
from tests.helpers.stores import ELSEWHERE, owned
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow
TITLE = "The stacks of the process's threads at this moment:"


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_HEARTBEAT": 0.5, "JOBRUNNER_LEASE": 3, "JOBRUNNER_CANCEL_GRACE": 0.5}


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One will do: what is tested is the process."""
    return sqlite_url


@pytest.fixture
def runtime(host_app: Flask) -> Runtime:
    found: Runtime = host_app.extensions["jobrunner"]
    return found


def messages(jobs: JobRunner, job: Job) -> list[str]:
    return [line.message for line in jobs.status(job.uuid, after_seq=0, limit=1000).logs]


def hanging(jobs: JobRunner, *acts: tuple[object, ...]) -> Job:
    """A job that has said that it is about to hang."""
    job = jobs.start("host.script", script(("print", "hangs"), *acts)).job
    eventually(lambda: "hangs" in messages(jobs, job), timeout=60)
    return job


def test_a_handler_that_sleeps_tells_where_and_goes_on(
    commands: Commands, host_jobs: JobRunner, runtime: Runtime, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    job = hanging(host_jobs, ("wait_for_file", str(go)), ("return", 7))

    answer = commands("show", job.uuid, "--stack")

    assert answer.exit_code == 0, answer.err
    stack = answer.out.partition("Stack\n")[2].splitlines()
    assert stack[0].strip().startswith("Current thread 0x")
    assert any("host_acts.py" in line and "_wait_for_file" in line for line in stack)
    (asked,) = [one for one in runtime.events.of(job.id) if one.action == "stack"]
    assert (asked.actor or "").startswith("cli:")
    eventually(lambda: TITLE in messages(host_jobs, job), timeout=60)
    logged = messages(host_jobs, job)
    assert sum("_wait_for_file" in line for line in logged) == 1
    assert logged[logged.index(TITLE) + 1].startswith("Current thread 0x")

    go.touch()
    done = host_jobs.wait(job.uuid, 60)
    assert (done.status, host_jobs.status(job.uuid).result) == ("succeeded", 7)
    assert sum("_wait_for_file" in line for line in messages(host_jobs, job)) == 1


def test_a_c_call_that_holds_the_interpreter_tells_too(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    begin, go = tmp_path / "begin", tmp_path / "go"
    acts = ("wait_for_file", str(begin)), ("hold_gil_until_file", str(go)), ("return", 7)
    job = hanging(host_jobs, *acts)
    begin.touch()

    def stack() -> list[str]:
        lines: list[str] = commands("show", job.uuid, "--stack", "--json").json()["stack"]
        return [line for line in lines if "in _hold_gil_until_file" in line]

    eventually(stack, timeout=60)
    assert len(stack()) == 1
    # Nobody in that process can write now.
    assert not any("in _hold_gil_until_file" in line for line in messages(host_jobs, job))
    go.touch()
    assert host_jobs.wait(job.uuid, 60).status == "succeeded"
    # What it has no time to store, its parent's report brings.
    eventually(
        lambda: sum("in _hold_gil_until_file" in one for one in messages(host_jobs, job)) == 2,
        timeout=60,
    )


def test_from_another_host_the_command_says_where_to_go(
    host_jobs: JobRunner, runtime: Runtime, tmp_path: Path
) -> None:
    job = hanging(host_jobs, ("wait_for_file", str(tmp_path / "go")))
    seen = dataclasses.replace(owned(runtime, job.id), worker=ELSEWHERE)

    found = stack_of(runtime, seen, "ann")

    assert found.lines == []
    assert f"on {ELSEWHERE.host}, cannot be seen from here: run this command there" in found.why
    assert [one for one in runtime.events.of(job.id) if one.action == "stack"] == []
    (tmp_path / "go").touch()
    assert host_jobs.wait(job.uuid, 60).status == "succeeded"


def test_a_job_that_has_ended_has_none(commands: Commands, host_jobs: JobRunner) -> None:
    job = host_jobs.start("host.nothing").job
    host_jobs.wait(job.uuid, 60)

    answer = commands("show", job.uuid, "--stack")

    assert (answer.exit_code, answer.err) == (1, "The job does not run, so there is no stack.\n")


@pytest.mark.parametrize("hangs", ["wait_for_file", "hold_gil_until_file"])
def test_a_run_budget_leaves_the_stack_in_the_log(
    host_jobs: JobRunner, tmp_path: Path, hangs: str
) -> None:
    """Also where only the parent can end it."""
    acts = script(("ignore_signals",), (hangs, str(tmp_path / "never")))
    job = host_jobs.start("host.budget", acts).job

    done = host_jobs.wait(job.uuid, 120)

    assert (done.status, done.error_reason_code) == ("failed", "run_timeout")
    eventually(lambda: any(f"_{hangs}" in one for one in messages(host_jobs, job)), timeout=60)
    assert sum(f"in _{hangs}" in one for one in messages(host_jobs, job)) == 1
