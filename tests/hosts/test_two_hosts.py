"""Two hosts on one database: what one leaves behind when it dies, and what reaches it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import sqlalchemy as sa

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.model.statuses import ExitCode
from tests import host_app
from tests.helpers.machines import Machines, supervisor_in, worker_in
from tests.helpers.processes import is_running
from tests.helpers.supervising import PATIENCE, Supervisors, ended, in_status, ledger_of
from tests.helpers.waiting import eventually, stays
from tests.host_acts import script

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)
# The second server of the same kind: `make test-faults`.
MARIADB = pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.faults])
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
on_both = pytest.mark.parametrize("database_url", [POSTGRESQL, MARIADB], indirect=True)
on_one = pytest.mark.parametrize("database_url", [POSTGRESQL], indirect=True)
PATIENCE_OF_SWEEP = 3 * 1.2
"""The lease in the tests' configuration and its margin."""


def starts(ledger: Path) -> list[str]:
    """Which attempts began."""
    return [line.split()[1] for line in ledger_of(ledger).elements() if line.startswith("start")]


def waiting(jobs: JobRunner, ledger: Path, until: Path, lock_key: str | None = None) -> Job:
    """A job that runs until the file is there."""
    acts = script(("wait_for_file", str(until)), ("return", 1), ledger=ledger)
    return jobs.enqueue("host.script", acts, lock_key=lock_key).job


def runs(jobs: JobRunner, job: Job, ledger: Path) -> None:
    """Wait for its handler."""
    eventually(lambda: starts(ledger), timeout=PATIENCE)
    in_status(jobs, job, "running")


def evidence(pull: Supervisors, job: Job, to_status: str) -> dict[str, float]:
    """What is written beside the job's step to this status."""
    events = pull.runtime.database.tables.events
    statement = sa.select(events).where(events.c.job_id == job.id, events.c.to_status == to_status)
    (row,) = pull.runtime.database.rows(statement)
    found: dict[str, float] = json.loads(row["evidence_json"])
    return found


@on_both
def test_a_host_that_dies_loses_what_had_begun_and_nothing_else(
    host_jobs: JobRunner, pull: Supervisors, machines: Machines, tmp_path: Path
) -> None:
    a, b = machines("a"), machines("b")
    never, hold = tmp_path / "never", tmp_path / "hold"
    hold.touch()
    begun = [waiting(host_jobs, tmp_path / f"l{n}", never, lock_key=f"k{n}") for n in range(2)]
    claimed = host_jobs.enqueue("late.import", script(ledger=tmp_path / "claimed")).job
    handed = host_jobs.enqueue("host.class", script(ledger=tmp_path / "handed")).job
    a.work(pull, "--slots", 3, "--types", "host.script", "--types", "late.*", HOST_LATE=str(hold))
    hanging = json.loads(a.environ[host_app.CONFIG]) | {"HOST_FACTORY": "hang"}
    a.work(pull, "--types", "host.class", HOST_CONFIG=json.dumps(hanging))
    for number, job in enumerate(begun):
        runs(host_jobs, job, tmp_path / f"l{number}")
    in_status(host_jobs, claimed, "running")
    eventually(lambda: pull.columns("dispatch_by")[-1] != (None,), timeout=PATIENCE)

    assert json.loads(b.run("sweep", "--json").out)["moved"] == {}
    b.work(pull, "--slots", 4)
    a.kill()
    lost = ended(host_jobs, *begun)
    pull.change(handed, dispatch_until=1)
    run = ended(host_jobs, claimed, handed)

    assert [(job.status, job.error_reason_code) for job in lost] == [("lost", "owner_gone")] * 2
    assert all(evidence(pull, job, "lost")["watched"] >= PATIENCE_OF_SWEEP - 0.1 for job in lost)
    assert host_jobs.enqueue("host.nothing", lock_key="k0").status == "already_active"
    assert [starts(tmp_path / f"l{n}") for n in range(2)] == [["1"], ["1"]]
    assert [(job.status, job.attempt) for job in run] == [("succeeded", 2), ("succeeded", 1)]
    assert (starts(tmp_path / "claimed"), starts(tmp_path / "handed")) == (["2"], ["1"])
    ran_on = [pull.runtime.attempts.of(job.id)[-1].worker.host for job in (*begun, *run)]
    assert ran_on == ["a", "a", "b", "b"]


@on_one
@pytest.mark.parametrize("how", ["stopped", "cut off"])
def test_an_owner_that_returns_after_the_verdict_changes_nothing(
    host_jobs: JobRunner, pull: Supervisors, machines: Machines, tmp_path: Path, how: str
) -> None:
    a, b, go_on = machines("a"), machines("b"), tmp_path / "go-on"
    left, again = (waiting(host_jobs, tmp_path / f"l{n}", go_on) for n in range(2))
    a.work(pull, "--slots", 2)
    runs(host_jobs, left, tmp_path / "l0")
    runs(host_jobs, again, tmp_path / "l1")

    a.signal(signal.SIGSTOP) if how == "stopped" else a.cut_off()
    b.work(pull, "--slots", 2)
    assert [job.status for job in ended(host_jobs, left, again)] == ["lost", "lost"]
    assert host_jobs.requeue(again.uuid, confirm_lost=True).status == "queued"
    eventually(lambda: starts(tmp_path / "l1") == ["1", "2"], timeout=PATIENCE)
    (row, _) = pull.columns("status", "attempt", "finished_at", "worker_token", "heartbeat_at")

    a.signal(signal.SIGCONT) if how == "stopped" else a.reconnect()
    for job in (left, again):
        eventually(
            lambda job=job: pull.runtime.attempts.of(job.id)[0].exit_code is not None,  # type: ignore[misc]
            timeout=PATIENCE,
        )
        assert pull.runtime.attempts.of(job.id)[0].exit_code == ExitCode.REFUSED
    now, other = pull.columns("status", "attempt", "finished_at", "worker_token", "heartbeat_at")
    assert now == row
    assert other[:2] == ("running", 2)
    go_on.touch()
    (job,) = ended(host_jobs, again)
    assert (job.status, job.attempt) == ("succeeded", 2)
    assert [starts(tmp_path / f"l{n}") for n in range(2)] == [["1"], ["1", "2"]]
    assert [one.worker.host for one in pull.runtime.attempts.of(again.id)] == ["a", "b"]


@on_one
def test_what_is_asked_on_one_host_is_done_on_the_other(
    host_jobs: JobRunner, pull: Supervisors, machines: Machines, tmp_path: Path
) -> None:
    a, b = machines("a"), machines("b")
    hears = host_jobs.enqueue(
        "host.script", script(("wait_for_cancel",), ("raise_if_cancelled",), ledger=tmp_path / "l0")
    ).job
    working = a.work(pull, "--slots", 1)
    runs(host_jobs, hears, tmp_path / "l0")
    assert b.run("cancel", hears.uuid).exit_code == 0
    assert ended(host_jobs, hears)[0].status == "cancelled"

    stands = waiting(host_jobs, tmp_path / "l1", tmp_path / "never", lock_key="k")
    runs(host_jobs, stands, tmp_path / "l1")
    worker = worker_in(working)
    os.kill(worker, signal.SIGSTOP)
    assert "cannot be reached from here" in b.run("cancel", "--force", stands.uuid).out
    assert is_running(worker)
    assert in_status(host_jobs, stands, "cancel_requested").error_reason_code is None
    pull.change(stands, cancel_requested_at=1)  # so long ago that its own host has to act

    (job,) = ended(host_jobs, stands)
    assert (job.status, job.error_reason_code) == ("cancelled", "cancel_forced")
    assert not is_running(worker)
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"


@on_one
def test_each_host_counts_the_slots_of_its_own(
    host_jobs: JobRunner, pull: Supervisors, machines: Machines, tmp_path: Path
) -> None:
    a, b, go_on = machines("a"), machines("b"), tmp_path / "go-on"
    orphan = waiting(host_jobs, tmp_path / "l0", go_on)
    working = a.work(pull)
    runs(host_jobs, orphan, tmp_path / "l0")
    os.kill(supervisor_in(working), signal.SIGKILL)
    working.exit_code()
    second = waiting(host_jobs, tmp_path / "l1", go_on)

    full = a.work(pull)
    stays(lambda: not full.told("started"), seconds=1.5, message="its one slot is taken")
    b.work(pull)
    runs(host_jobs, second, tmp_path / "l1")
    go_on.touch()

    assert [job.status for job in ended(host_jobs, orphan, second)] == ["succeeded"] * 2
    ran_on = [pull.runtime.attempts.of(job.id)[-1].worker.host for job in (orphan, second)]
    assert ran_on == ["a", "b"]
