"""Jobs that ignore everything: how they end says who wanted it, not what it took."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from flask_jobrunner import Job, JobRunner
from tests.helpers.supervising import PATIENCE, QUICK, Supervisors, ended, in_status, ledger_of
from tests.helpers.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
DEAF = {"JOBRUNNER_HANDLERS": {"deaf": "tests.hosts.deaf:handle"}}


@pytest.fixture
def host_config() -> dict[str, object]:
    return QUICK | DEAF


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url


def begun(jobs: JobRunner, pull: Supervisors, ledger: Path, how: str) -> tuple[Job, int]:
    """A deaf job and its process."""
    asked = {"ledger": str(ledger)}
    if how == "push":
        job = jobs.start("deaf", asked, lock_key="k").job
    else:
        job = jobs.enqueue("deaf", asked, lock_key="k").job
        pull.work()
    eventually(lambda: ledger_of(ledger), timeout=PATIENCE)
    (line,) = ledger_of(ledger)
    return in_status(jobs, job, "running"), int(line.split()[2])


@pytest.mark.parametrize("how", ["push", "pull"])
def test_a_cancelled_job_that_is_killed_is_cancelled(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path, how: str
) -> None:
    job, pid = begun(host_jobs, pull, tmp_path / "l", how)
    assert host_jobs.cancel(job.uuid).status == "cancel_requested"
    os.kill(pid, signal.SIGKILL)

    (done,) = ended(host_jobs, job)
    assert (done.status, done.error_reason_code) == ("cancelled", None)
    assert pull.runtime.attempts.of(job.id)[0].signal == signal.SIGKILL
    assert host_jobs.find(lock_key="k", status="running").jobs == []
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"
    assert ledger_of(tmp_path / "l").total() == 1


@pytest.mark.parametrize("host_config", [QUICK | DEAF | {"JOBRUNNER_RUN_BUDGET": 2}])
@pytest.mark.parametrize("how", ["push", "pull"])
def test_a_job_over_its_budget_fails_for_that_whatever_it_ignores(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path, how: str
) -> None:
    job, _ = begun(host_jobs, pull, tmp_path / "l", how)

    (done,) = ended(host_jobs, job)
    assert (done.status, done.error_reason_code) == ("failed", "run_timeout")
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"
    assert ledger_of(tmp_path / "l").total() == 1


def test_a_deploy_that_kills_a_job_never_cancels_it(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    asked = {"ledger": str(tmp_path / "l")}
    job = host_jobs.enqueue("deaf", asked, lock_key="k").job
    working = pull.work("--drain-timeout", 2)
    eventually(lambda: ledger_of(tmp_path / "l"), timeout=PATIENCE)
    in_status(host_jobs, job, "running")
    working.stop()

    (done,) = ended(host_jobs, job)
    assert (done.status, done.error_reason_code) == ("interrupted", "shutdown")
    assert pull.runtime.attempts.of(job.id)[0].signal == signal.SIGKILL
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"
    assert ledger_of(tmp_path / "l").total() == 1
