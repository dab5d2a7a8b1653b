"""Ending what does not end by itself: a forced stop, and processes that stand still."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.model.errors import LockBusy
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.recovery import stop
from flask_jobrunner.recovery.sweep import OVERDUE, Sweeper, sweep_once
from flask_jobrunner.runtime import Runtime
from tests.helpers.commands import Commands
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import is_running
from tests.helpers.stores import ELSEWHERE, change, end_as, owned, queue, start
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow
STUBBORN = script(("ignore_signals",), ("print", "busy"), ("pause", 600))

INLINE = """
import json, sys
from tests import host_app
with host_app.create_app().app_context():
    host_app.jobs.run_inline("host.script", json.loads(sys.argv[1]))
"""


@pytest.fixture
def runtime(host_app: Flask) -> Runtime:
    found: Runtime = host_app.extensions["jobrunner"]
    return found


def started(runtime: Runtime, jobs: JobRunner) -> tuple[Job, OwnedJob]:
    """A job that ignores every request, once it is at it."""
    job = jobs.start("host.script", STUBBORN, lock_key="k").job

    def busy() -> bool:
        return "busy" in [line.message for line in jobs.status(job.uuid).logs]

    eventually(busy, timeout=60)
    return job, owned(runtime, job.id)


def hold(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)


def test_a_forced_stop_ends_the_process_and_frees_the_lock(
    commands: Commands, host_jobs: JobRunner, runtime: Runtime
) -> None:
    job, seen = started(runtime, host_jobs)
    host_jobs.cancel(job.uuid)

    answer = commands.process("cancel", job.uuid, "--force")

    assert (answer.exit_code, answer.out) == (0, f"Job {job.uuid} is cancelled.\n")
    now = host_jobs.get(job.uuid)
    assert now is not None
    assert (now.status, now.error_reason_code) == ("cancelled", "cancel_forced")
    assert not is_running(seen.worker.pid or 0)
    actions = [event.action for event in runtime.events.of(job.id)]
    assert actions[-4:-1] == ["cancel", "force_stop", "kill"]
    assert host_jobs.start("host.nothing", lock_key="k").ok


def test_a_process_that_stands_still_with_its_parent_is_ended_all_the_same(
    commands: Commands, host_jobs: JobRunner, runtime: Runtime
) -> None:
    job, seen = started(runtime, host_jobs)
    hold(seen.worker.pid)
    hold(seen.parent.pid)
    try:
        assert commands.process("cancel", job.uuid, "--force").exit_code == 0
        assert not is_running(seen.worker.pid or 0)
    finally:
        os.kill(seen.parent.pid or 0, signal.SIGCONT)
    eventually(lambda: host_jobs.get(job.uuid).status == "cancelled", timeout=60)  # type: ignore[union-attr]


def test_the_intent_alone_is_enough_for_a_job_that_can_hear(
    host_jobs: JobRunner, runtime: Runtime
) -> None:
    """As a page records it: the job's own watchdog has its parent end it."""
    job, seen = started(runtime, host_jobs)

    result = host_jobs.cancel(job.uuid, force=True, actor="ann")

    assert (result.status, result.new_status) == ("cancel_requested", "cancel_requested")
    ended = host_jobs.wait(job.uuid, timeout=60)
    assert (ended.status, ended.error_reason_code) == ("cancelled", "cancel_forced")
    assert not is_running(seen.worker.pid or 0)
    assert host_jobs.cancel(job.uuid, force=True).status == "already_terminal"


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        ({"stop_reason": "force", "status": "cancel_requested"}, "cancelled", "cancel_forced"),
        ({"stop_reason": "stall"}, "failed", "stalled"),
        ({"stop_reason": "run_timeout"}, "failed", "run_timeout"),
        ({"run_deadline": 1}, "failed", "run_timeout"),
    ],
    ids=["force", "stall", "run_timeout", "nobody_said_so"],
)
def test_a_sweep_ends_what_should_have_ended_and_is_silent(
    host_jobs: JobRunner, runtime: Runtime, said: dict[str, object], status: str, reason: str
) -> None:
    """Neither its own watchdog nor its parent can."""
    job, seen = started(runtime, host_jobs)
    now, sweeper = [0.0], Sweeper(runtime, lambda: now[0])
    hold(seen.worker.pid)
    hold(seen.parent.pid)
    try:
        change(runtime, job.id, lease_until=1, heartbeat_at=1, **said)
        watched(sweeper, now, OVERDUE - 0.1)
        assert is_running(seen.worker.pid or 0)  # they have their time first
        watched(sweeper, now, 0.2)
        assert not is_running(seen.worker.pid or 0)
    finally:
        os.kill(seen.parent.pid or 0, signal.SIGCONT)
    ended = host_jobs.wait(job.uuid, timeout=60)
    assert (ended.status, ended.error_reason_code) == (status, reason)


@pytest.mark.parametrize(
    ("host_config", "is_ended"),
    [({"JOBRUNNER_CANCEL_GRACE": 1}, True), ({"JOBRUNNER_CANCEL_GRACE": None}, False)],
    ids=["grace", "no_grace"],
)
def test_a_sweep_ends_a_silent_owner_whose_cancel_grace_is_over(
    host_jobs: JobRunner, runtime: Runtime, is_ended: bool
) -> None:
    job, seen = started(runtime, host_jobs)
    now, sweeper = [0.0], Sweeper(runtime, lambda: now[0])
    hold(seen.worker.pid)
    hold(seen.parent.pid)
    try:
        assert host_jobs.cancel(job.uuid).status == "cancel_requested"
        change(runtime, job.id, lease_until=1, heartbeat_at=1, cancel_requested_at=1)
        watched(sweeper, now, OVERDUE + 1)
        assert is_running(seen.worker.pid or 0) is not is_ended
    finally:
        os.kill(seen.worker.pid or 0, signal.SIGKILL)
        os.kill(seen.parent.pid or 0, signal.SIGCONT)
    assert host_jobs.wait(job.uuid, timeout=60).status == "cancelled"


def test_who_may_only_wait_to_write_its_end_is_not_ended(
    host_jobs: JobRunner, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others keep the database locked, so that nobody can write: its owner could not either."""
    job, seen = started(runtime, host_jobs)
    now, sweeper = [0.0], Sweeper(runtime, lambda: now[0])
    hold(seen.worker.pid)
    try:
        change(runtime, job.id, lease_until=1, heartbeat_at=1, run_deadline=1)

        def locked(*_: object) -> bool:
            raise LockBusy("the write lock is taken")

        with monkeypatch.context() as patch:
            patch.setattr(runtime.ownership, "set_stop_reason", locked)
            watched(sweeper, now, OVERDUE * 2)
        assert is_running(seen.worker.pid or 0)
        watched(sweeper, now, OVERDUE * 2)
        assert not is_running(seen.worker.pid or 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(seen.worker.pid or 0, signal.SIGCONT)
    assert host_jobs.wait(job.uuid, timeout=60).error_reason_code == "run_timeout"


def test_a_clock_alone_ends_nobody_who_renews(host_jobs: JobRunner, runtime: Runtime) -> None:
    """The database's clock is set: a run budget seems over, a lease seems run out."""
    job, seen = started(runtime, host_jobs)
    now, sweeper = [0.0], Sweeper(runtime, lambda: now[0])
    change(runtime, job.id, lease_until=1, heartbeat_at=1, run_deadline=1)
    sweeper.sweep()
    assert sweeper.has_candidates
    eventually(lambda: owned(runtime, job.id).heartbeat != 1, timeout=60)
    watched(sweeper, now, OVERDUE * 2)

    assert not sweeper.has_candidates
    assert host_jobs.get(job.uuid).status == "running"
    assert is_running(seen.worker.pid or 0)
    host_jobs.cancel(job.uuid, force=True)
    assert host_jobs.wait(job.uuid, timeout=60).is_terminal


def watched(sweeper: Sweeper, now: list[float], seconds: float) -> None:
    """Let a sweeper look all the time while these seconds pass."""
    until = now[0] + seconds
    while now[0] < until:
        sweeper.sweep()
        now[0] = min(now[0] + 5.0, until)
    sweeper.sweep()


def test_a_number_that_belongs_to_somebody_else_is_never_signalled(
    host_jobs: JobRunner, runtime: Runtime
) -> None:
    """A pid that was given to a bystander since."""
    job, seen = started(runtime, host_jobs)
    worker = seen.worker
    bystander = dataclasses.replace(seen, worker=dataclasses.replace(worker, ticks=1))
    elsewhere = dataclasses.replace(seen, worker=ELSEWHERE)

    assert stop.end_owner(runtime, bystander, grace=0.0)  # whom it means is gone
    assert not stop.end_owner(runtime, elsewhere, grace=0.0)
    assert is_running(worker.pid or 0)
    host_jobs.cancel(job.uuid, force=True)
    assert host_jobs.wait(job.uuid, timeout=60).is_terminal


def test_a_lost_job_is_closed_and_its_lock_is_free(
    commands: Commands, host_jobs: JobRunner, runtime: Runtime
) -> None:
    won = start(runtime, queue(runtime, lock_key="k"), worker=ELSEWHERE)
    end_as(runtime, won, "lost")
    job_id = won.fence.job_id
    assert commands("cancel", str(job_id)).out.startswith("Job ")
    assert host_jobs.get(job_id).status == "lost"  # type: ignore[union-attr]

    assert commands("cancel", str(job_id), "--force").exit_code == 0

    now = host_jobs.get(job_id)
    assert now is not None
    assert (now.status, now.error_reason_code) == ("cancelled", "lost_closed")
    jobs = runtime.database.tables.jobs
    (row,) = runtime.database.rows(sa.select(jobs.c.active_lock_key).where(jobs.c.id == job_id))
    assert row["active_lock_key"] is None


def test_a_queued_job_is_cancelled_as_ever(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    job = host_jobs.enqueue("host.nothing").job

    assert commands("cancel", job.uuid, "--force").out == f"Job {job.uuid} is cancelled.\n"


def test_a_process_that_is_there_for_more_than_the_job_is_never_ended(
    commands: Commands,
    host_jobs: JobRunner,
    host_environment: HostEnvironment,
    runtime: Runtime,
) -> None:
    """An inline job: its owner may be a web server's process."""
    payload = script(("print", "busy"), ("pause", 600))
    argv = [sys.executable, "-c", INLINE, json.dumps(payload)]
    with subprocess.Popen(argv, env=dict(host_environment.environ)) as server:
        eventually(lambda: bool(host_jobs.find(status="running").jobs), timeout=60)
        (job,) = host_jobs.find(status="running").jobs

        answer = commands.process("cancel", job.uuid, "--force")
        assert f"It runs inside process {server.pid}, which is not ended for it" in answer.out
        hold(server.pid)
        change(runtime, job.id, lease_until=1, heartbeat_at=1)
        now = [0.0]
        watched(Sweeper(runtime, lambda: now[0]), now, OVERDUE * 2)
        assert server.poll() is None
        server.kill()
    # Nobody is there who could report more: it is settled at once.
    sweep_once(runtime)
    ended = host_jobs.get(job.uuid)
    assert ended is not None
    assert ended.status == "cancelled"
