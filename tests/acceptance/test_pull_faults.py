"""What goes wrong around a supervisor: the database, the system, and processes that stay."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner import Job, JobRunner
from tests import host_app
from tests.helpers.job_fixtures import ALSO_STANDBY
from tests.helpers.processes import is_running
from tests.helpers.proxy import Proxy, proxy_to
from tests.helpers.supervising import QUICK, Supervisors, Working, ended, in_status, ledger_of
from tests.helpers.waiting import eventually, stays
from tests.host_acts import script

NO_PROCESSES = """
import errno, os
from flask_jobrunner.shim import channels
real = channels.start_child
def start_child(*arguments):
    if os.path.exists({path!r}):
        with open({path!r}, "a") as file:
            file.write("x")
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
    return real(*arguments)
channels.start_child = start_child
"""
IMPATIENT = """
from flask_jobrunner.supervisor import upkeep
upkeep.LEAVE_SECONDS = upkeep.LEAVE_GRACE = 1.0
"""


@pytest.fixture
def host_config() -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_HANDLERS": {"stays.on": "tests.supervisor.lingering:handle"}}


@pytest.fixture
def proxy(database_url: str) -> Iterator[Proxy]:
    """Between the supervisor with its jobs and the database."""
    if database_url.startswith("sqlite"):
        pytest.skip("a file does not go away")
    with proxy_to(database_url) as found:
        yield found


def through(pull: Supervisors, proxy: Proxy, database_url: str, *arguments: object) -> Working:
    environ: dict[str, Any] = {host_app.DATABASE: proxy.url(database_url)}
    return pull.work(*arguments, **environ)


def running(jobs: JobRunner, job: Job, ledger: Path) -> Job:
    eventually(partial(ledger_of, ledger), timeout=90)
    return in_status(jobs, job, "running")


@pytest.mark.timeout(400)
def test_while_the_database_is_away_jobs_go_on_and_none_are_taken(
    host_jobs: JobRunner, pull: Supervisors, proxy: Proxy, database_url: str, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    acts = script(("wait_for_file", str(go_on)), ("return", 1), ledger=tmp_path / "l1")
    made = host_jobs.enqueue("host.script", acts).job
    dying = host_jobs.enqueue("host.script", script(("pause", 600), ledger=tmp_path / "l2")).job
    working = through(pull, proxy, database_url, "--slots", 3)
    for job, name in ((made, "l1"), (dying, "l2")):
        running(host_jobs, job, tmp_path / name)

    proxy.cut()
    working.tells("database_away")
    os.kill(int(ledger_of(tmp_path / "l2").most_common()[0][0].split()[2]), signal.SIGKILL)
    waiting = host_jobs.enqueue("host.nothing").job
    go_on.touch()
    stays(lambda: len(working.told("started")) == 2, seconds=3)
    proxy.restore()

    working.tells("database_back")
    finished, dead, late = ended(host_jobs, made, dying, waiting)
    assert (finished.status, finished.attempt) == ("succeeded", 1)
    assert (dead.status, dead.error_reason_code) == ("interrupted", "process_died")
    (attempt,) = pull.runtime.attempts.of(dying.id)
    assert attempt.signal == signal.SIGKILL
    assert late.status == "succeeded"
    away = working.told("database_away")
    assert len(away) <= 4, "told when it begins, not at every try"
    working.stop()


@pytest.mark.timeout(400)
def test_an_end_that_the_database_does_not_take_is_kept_for_the_next_sweep(
    host_jobs: JobRunner, pull: Supervisors, proxy: Proxy, database_url: str, tmp_path: Path
) -> None:
    acts = script(("print", "last words"), ("pause", 600), ledger=tmp_path / "l")
    made = host_jobs.enqueue("host.script", acts).job
    working = through(pull, proxy, database_url)
    running(host_jobs, made, tmp_path / "l")

    proxy.cut()
    os.kill(working.children()[0], signal.SIGKILL)
    working.send(signal.SIGTERM)
    assert working.exit_code() == 0
    (report,) = (tmp_path / "spool").iterdir()
    assert report.name == f"{made.uuid}.1.json"
    assert report.stat().st_mode & 0o777 == 0o600
    in_status(host_jobs, made, "running")

    pull.work()
    (job,) = ended(host_jobs, made)
    assert (job.status, job.error_reason_code) == ("interrupted", "process_died")
    (attempt,) = pull.runtime.attempts.of(made.id)
    assert attempt.signal == signal.SIGKILL
    eventually(lambda: not report.exists())


def test_where_no_process_can_be_started_the_jobs_stay(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.touch()
    made = host_jobs.enqueue("host.nothing").job
    working = pull.work_patched(NO_PROCESSES.format(path=str(full)))

    working.tells("backing_off", 2)
    columns = ("status", "attempt", "unstarted_deaths", "dispatch_until")
    # It says so first, and gives back what it had reserved right after.
    eventually(lambda: pull.columns(*columns) == [("queued", 1, 0, None)], timeout=60)
    assert len(full.read_text()) <= 3, "no hot loop"
    assert "Resource temporarily unavailable" in working.told("backing_off")[0]["message"]
    full.unlink()
    assert ended(host_jobs, made)[0].status == "succeeded"
    working.tells("recovered")


@ALSO_STANDBY
def test_a_process_that_stays_after_its_job_is_ended_and_frees_its_slot(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    made = host_jobs.enqueue("stays.on").job
    after = host_jobs.enqueue("host.nothing").job
    working = pull.work_patched(IMPATIENT)

    assert ended(host_jobs, made)[0].status == "succeeded"
    pid = working.told("started")[0]["pid"]
    assert ended(host_jobs, after)[0].status == "succeeded"
    assert not is_running(pid)
    assert "stays" in working.told("ending")[0]["message"]
    attempt = pull.runtime.attempts.of(made.id)[0]
    assert attempt.end_status == "succeeded"
    assert attempt.evidence is not None
    assert attempt.evidence["killed"] == "overdue"


@pytest.mark.slow
@pytest.mark.timeout(900)
# Fifty processes that start at once take as long as the machine is slow.
@pytest.mark.parametrize("host_config", [{"JOBRUNNER_CLAIM_WINDOW": 600}])
def test_fifty_processes_at_once_all_take_their_job(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    made = [host_jobs.enqueue("host.nothing").job for _ in range(50)]
    working = pull.work("--slots", 50, "--burst", ready=False)

    assert working.exit_code(timeout=800) == 0
    assert {job.status for job in ended(host_jobs, *made)} == {"succeeded"}
    assert {row[0] for row in pull.columns("attempt")} == {1}
    assert working.told("backing_off") == []
