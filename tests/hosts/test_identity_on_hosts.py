"""Who is dead and who only looks so: stopped owners, reused pids, containers, and their names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from flask_jobrunner import JobRunner
from flask_jobrunner.model.records import Job
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.protocol.identity import of_pid
from flask_jobrunner.recovery.sweep import Sweeper
from tests.helpers.commands import Commands
from tests.helpers.machines import Machines
from tests.helpers.processes import is_running
from tests.helpers.supervising import PATIENCE, QUICK, Supervisors, ended, in_status, ledger_of
from tests.helpers.waiting import eventually, stays
from tests.host_acts import script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
LEASES = 3 * 3.0
"""Three leases of the tests' configuration."""


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def host_config() -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_HANDLERS": {"rough.gil": "tests.child.rough:hold_gil"}}


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any job."""
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) as process:
        yield process


def starts(ledger: Path) -> list[str]:
    return [line.split()[1] for line in ledger_of(ledger).elements() if line.startswith("start")]


def running(jobs: JobRunner, pull: Supervisors, ledger: Path, until: Path) -> tuple[Job, int]:
    """A pushed job that runs until the file is there, and its process."""
    acts = script(("wait_for_file", str(until)), ("return", 1), ledger=ledger)
    job = jobs.start("host.script", acts, lock_key="k").job
    eventually(lambda: starts(ledger), timeout=PATIENCE)
    owned = pull.runtime.jobs.owned(job.id)
    assert owned is not None
    return job, cast("int", owned.worker.pid)


def lease_is_over(pull: Supervisors, job: Job) -> bool:
    owned = pull.runtime.jobs.owned(job.id)
    assert owned is not None
    return owned.lease_until is not None and owned.lease_until < owned.now


def test_a_handler_that_lets_no_thread_run_for_three_leases_is_not_dead(
    host_jobs: JobRunner, pull: Supervisors, commands: Commands
) -> None:
    pull.work()
    job = host_jobs.enqueue("rough.gil", {"seconds": LEASES}).job
    in_status(host_jobs, job, "running")
    eventually(lambda: lease_is_over(pull, job), timeout=PATIENCE)
    sweeper = Sweeper(pull.runtime)
    while host_jobs.get(job.uuid).status == "running":  # type: ignore[union-attr]
        # The end itself may come between this look and the sweep's; it is the handler's own.
        assert sweeper.sweep().moved in ({}, {job.uuid: "succeeded"})
        commands("show", job.uuid)

    (done,) = ended(host_jobs, job)
    assert (done.status, done.attempt) == ("succeeded", 1)
    lines = [line.message for line in host_jobs.status(job.uuid).logs]
    assert (lines.count("holding"), lines.count("released")) == (1, 1)


def test_an_owner_stopped_beyond_its_lease_goes_on_where_it_can_be_seen(
    host_jobs: JobRunner, pull: Supervisors, commands: Commands, tmp_path: Path
) -> None:
    pull.work()
    go_on = tmp_path / "go-on"
    job, worker = running(host_jobs, pull, tmp_path / "l", go_on)
    os.kill(worker, signal.SIGSTOP)
    eventually(lambda: lease_is_over(pull, job), timeout=PATIENCE)
    assert commands("sweep", "--json").json()["moved"] == {}
    sweeper = Sweeper(pull.runtime)
    stays(lambda: sweeper.sweep().moved == {}, seconds=sweeper.patience)
    os.kill(worker, signal.SIGCONT)
    go_on.touch()

    (done,) = ended(host_jobs, job)
    assert (done.status, done.attempt) == ("succeeded", 1)
    assert starts(tmp_path / "l") == ["1"]


def test_a_container_never_judges_by_the_pids_it_sees(
    host_jobs: JobRunner, pull: Supervisors, machines: Machines, tmp_path: Path
) -> None:
    box, go_on = machines(os.uname().nodename, same_boot=True), tmp_path / "go-on"
    job, worker = running(host_jobs, pull, tmp_path / "l", go_on)
    assert json.loads(box.run("sweep", "--json").out)["moved"] == {}
    assert host_jobs.get(job.uuid).status == "running"  # type: ignore[union-attr]

    os.kill(worker, signal.SIGSTOP)
    eventually(lambda: lease_is_over(pull, job), timeout=PATIENCE)
    assert json.loads(box.run("show", job.uuid, "--json").out)["job"]["status"] == "running"
    assert json.loads(box.run("sweep", "--json").out)["moved"] == {job.uuid: "lost"}
    assert is_running(worker), "nobody there may signal it"
    os.kill(worker, signal.SIGCONT)
    attempts = pull.runtime.attempts
    eventually(lambda: attempts.of(job.id)[0].exit_code is not None, timeout=PATIENCE)

    assert attempts.of(job.id)[0].exit_code == ExitCode.REFUSED
    now = host_jobs.get(job.uuid)
    assert now is not None
    assert (now.status, now.error_reason_code, now.attempt) == ("lost", "owner_gone", 1)
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "already_active"
    assert starts(tmp_path / "l") == ["1"]


@pytest.mark.parametrize(
    ("act", "end"),
    [
        (("cancel", "--force"), ("cancelled", "cancel_forced")),
        (("sweep",), ("interrupted", "owner_gone")),
        (("show",), ("interrupted", "owner_gone")),
    ],
    ids=lambda value: value[0],
)
def test_who_has_the_pid_of_a_dead_owner_lives_on(
    host_jobs: JobRunner,
    pull: Supervisors,
    commands: Commands,
    bystander: subprocess.Popen[bytes],
    tmp_path: Path,
    act: tuple[str, ...],
    end: tuple[str, str],
) -> None:
    go_on = tmp_path / "go-on"
    job, worker = running(host_jobs, pull, tmp_path / "l", go_on)
    owned = pull.runtime.jobs.owned(job.id)
    assert owned is not None
    # Both die unheard; what is recorded is then the bystander's number, with another start.
    os.kill(cast("int", owned.parent.pid), signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    before = of_pid(bystander.pid).ticks or 0
    pull.change(job, worker_pid=bystander.pid, worker_ticks=before - 1)

    commands(act[0], *(() if act[0] == "sweep" else (job.uuid,)), *act[1:])
    now = host_jobs.get(job.uuid)
    assert now is not None
    assert (now.status, now.error_reason_code) == end
    again = host_jobs.requeue(job.uuid)
    assert again.status == "started"
    go_on.touch()
    assert ended(host_jobs, job)[0].status == "succeeded"
    assert starts(tmp_path / "l") == ["1", "2"]
    assert bystander.poll() is None


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_LEASE": 600, "JOBRUNNER_HEARTBEAT": 1}])
def test_a_new_incarnation_proves_the_one_before_it_dead(
    host_jobs: JobRunner, pull: Supervisors, machines: Machines, tmp_path: Path
) -> None:
    """Long before the lease ends, and only where the name is the same."""
    named = {"JOBRUNNER_INSTANCE": "jobs-1", "same_boot": True}
    first, ledger = machines("c1", **named), tmp_path / "l"
    acts = script(("wait_for_file", str(tmp_path / "never")), ledger=ledger)
    job = host_jobs.enqueue("host.script", acts, lock_key="k").job
    first.work(pull)
    eventually(lambda: starts(ledger), timeout=PATIENCE)
    in_status(host_jobs, job, "running")
    assert json.loads(first.run("sweep", "--json").out)["moved"] == {}

    first.kill()
    stranger = machines("c2", same_boot=True, JOBRUNNER_INSTANCE="jobs-2")
    assert json.loads(stranger.run("sweep", "--json").out)["moved"] == {}
    second = machines("c3", **named)
    assert json.loads(second.run("sweep", "--json").out)["moved"] == {job.uuid: "interrupted"}

    now = host_jobs.get(job.uuid)
    assert now is not None
    assert (now.status, now.error_reason_code) == ("interrupted", "owner_gone")
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"
    assert starts(ledger) == ["1"]
