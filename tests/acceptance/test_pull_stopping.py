"""A supervisor that is told to stop: time to finish, a request, an end; and a second signal."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_jobrunner import Job, JobRunner
from tests.helpers.commands import Terminal
from tests.helpers.hosts import HostEnvironment
from tests.helpers.job_fixtures import ALSO_STANDBY
from tests.helpers.processes import is_running
from tests.helpers.supervising import QUICK, Supervisors, Working, ended, in_status, ledger_of
from tests.helpers.waiting import eventually
from tests.host_acts import script


@pytest.fixture
def host_config() -> dict[str, object]:
    return dict(QUICK)


def running(jobs: JobRunner, made: Job, ledger: Path) -> Job:
    """The job, once its handler runs."""
    eventually(lambda: f"start {made.attempt}" in str(ledger_of(ledger)), timeout=90)
    return in_status(jobs, made, "running")


@ALSO_STANDBY
@pytest.mark.timeout(300)
def test_each_of_four_jobs_ends_as_it_deals_with_the_request(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    acts: list[list[tuple[Any, ...]]] = [
        [("wait_for_cancel",), ("raise_if_cancelled",)],
        [("wait_for_cancel",), ("return", "as far as I came")],
        [("wait_for_file", str(go_on)), ("return", "all of it")],
        [("ignore_signals",), ("pause", 600)],
    ]
    made = [
        host_jobs.enqueue("host.script", script(*some, ledger=tmp_path / f"{n}")).job
        for n, some in enumerate(acts)
    ]
    working = pull.work("--slots", 4, "--drain-timeout", 15)
    for number, job in enumerate(made):
        running(host_jobs, job, tmp_path / f"{number}")
    waiting = host_jobs.enqueue("host.nothing").job
    children = working.children()
    assert len(children) == 4

    began = time.monotonic()
    working.send(signal.SIGTERM)
    working.tells("stopping")
    go_on.touch()
    assert working.exit_code() == 0
    took = time.monotonic() - began

    stopped, returned, finished, ignored = ended(host_jobs, *made)
    assert (stopped.status, stopped.error_reason_code) == ("interrupted", "shutdown")
    assert (returned.status, returned.stop_reason) == ("succeeded", "shutdown")
    assert host_jobs.status(returned.uuid).result == "as far as I came"
    assert (finished.status, finished.stop_reason) == ("succeeded", None)
    assert (ignored.status, ignored.error_reason_code) == ("interrupted", "shutdown")
    (attempt,) = pull.runtime.attempts.of(ignored.id)
    assert attempt.signal == signal.SIGKILL
    assert attempt.evidence is not None
    assert attempt.evidence["killed"] == "shutdown"
    assert in_status(host_jobs, waiting, "queued").attempt == 1
    assert not any(is_running(pid) for pid in children)
    assert took < 300, "the handler would have gone on for twice as long"
    assert [len(working.told(e)) for e in ("stopping", "asked", "ending", "stopped")] == [1] * 4
    assert pull.runtime.supervisors.all() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_without_a_job_it_ends_at_once(
    host_jobs: JobRunner, pull: Supervisors, number: signal.Signals
) -> None:
    working = pull.work()
    (row,) = pull.runtime.supervisors.all()
    assert (row.process.pid, row.slots, row.types) == (working.pid, 1, ())

    working.send(number)
    assert working.exit_code() == 0
    assert number.name in working.told("stopping")[0]["message"]
    assert pull.runtime.supervisors.all() == []


@ALSO_STANDBY
def test_each_further_signal_hurries(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    acts = script(("ignore_signals",), ("wait_for_cancel",), ("pause", 600), ledger=tmp_path / "l")
    made = host_jobs.enqueue("host.script", acts).job
    working = pull.work("--drain-timeout", 600)
    running(host_jobs, made, tmp_path / "l")

    working.send(signal.SIGHUP)
    working.tells("stopping")
    working.send(signal.SIGHUP)
    working.send(signal.SIGTERM)
    working.tells("asked")
    working.send(signal.SIGTERM)
    working.tells("ending")
    assert working.exit_code() == 0
    (job,) = ended(host_jobs, made)
    assert (job.status, job.error_reason_code) == ("interrupted", "shutdown")


def test_a_job_that_has_not_begun_is_given_back_at_once(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    made = host_jobs.enqueue("host.nothing").job
    working = pull.work(HOST_CONFIG=_hanging())
    eventually(working.children, timeout=60)
    assert pull.columns("dispatch_by") == [(pull.runtime.supervisors.all()[0].uuid,)]

    working.stop()
    assert pull.columns("status", "attempt", "dispatch_until", "unstarted_deaths") == [
        ("queued", 1, None, 0)
    ]
    assert working.told("backing_off") == []
    assert pull.work("--burst", ready=False).exit_code() == 0
    assert ended(host_jobs, made)[0].status == "succeeded"


def _hanging() -> str:
    """The host's configuration with a factory that takes for ever in a job's process."""
    return json.dumps(json.loads(os.environ["HOST_CONFIG"]) | {"HOST_FACTORY": "hang"})


def test_ctrl_c_reaches_the_supervisor_and_not_its_jobs(
    host_jobs: JobRunner,
    pull: Supervisors,
    host_environment: HostEnvironment,
    tmp_path: Path,
) -> None:
    go_on = tmp_path / "go-on"
    acts = script(("wait_for_file", str(go_on)), ("return", 1), ledger=tmp_path / "l")
    made = host_jobs.enqueue("host.script", acts).job
    argv = host_environment.command("jobs", "work")
    terminal = Terminal.start(argv, {**host_environment.environ})
    try:
        running(host_jobs, made, tmp_path / "l")
        terminal.shows(f"host.script job {made.id} started", timeout=60)
        terminal.interrupt()
        terminal.shows("Stopping (SIGINT)", timeout=60)
        terminal.shows("Ctrl-C again hurries.")
        go_on.touch()
        assert terminal.exit_code(timeout=60) == 0
    finally:
        terminal.close()
    (job,) = ended(host_jobs, made)
    assert (job.status, job.stop_reason) == ("succeeded", None)
    assert "{" not in terminal.seen, "lines for people"
    assert f"host.script job {made.id} succeeded" in terminal.seen


@ALSO_STANDBY
def test_a_child_that_gets_the_signal_too_is_no_trouble(
    host_app: Flask, host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    """As a service manager does that tells a whole group of processes."""
    acts = script(("wait_for_cancel",), ("raise_if_cancelled",), ledger=tmp_path / "l")
    made = host_jobs.enqueue("host.script", acts).job
    working: Working = pull.work()
    running(host_jobs, made, tmp_path / "l")

    for pid in [working.pid, *working.children()]:
        os.kill(pid, signal.SIGTERM)
    assert working.exit_code() == 0
    (job,) = ended(host_jobs, made)
    assert (job.status, job.error_reason_code) == ("interrupted", "shutdown")
