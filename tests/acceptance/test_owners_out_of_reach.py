"""Owners whose numbers are of another boot, who have ended unheard, or whom we may not signal."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.protocol.identity import of_pid
from flask_jobrunner.recovery import stop
from flask_jobrunner.recovery.settle import settle_row
from flask_jobrunner.runtime import Runtime
from tests.helpers.commands import Commands
from tests.helpers.stores import assert_sound, change, history, owned, queue, start
from tests.helpers.supervising import PATIENCE
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow
SOMEBODY, SOMEBODY_ELSE = 64001, 64002


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_HEARTBEAT": 0.5, "JOBRUNNER_LEASE": 3}


@pytest.fixture
def runtime(host_app: Flask) -> Runtime:
    found: Runtime = host_app.extensions["jobrunner"]
    return found


def test_of_another_boot_it_is_interrupted_before_its_lease_ends_and_not_signalled(
    commands: Commands, host_jobs: JobRunner, runtime: Runtime
) -> None:
    """What runs under that number now is this job's own process, which would show a signal."""
    acts = script(("print", "busy"), ("pause", 600))
    job = host_jobs.start("host.script", acts, lock_key="k").job
    eventually(lambda: owned(runtime, job.id).job.started_at is not None, timeout=PATIENCE)
    change(runtime, job.id, worker_boot="another-boot", parent_boot="another-boot")

    def is_interrupted() -> bool:
        """This owner renews, as none of another boot could: a sweep that it crosses lets it be."""
        moved = commands.process("sweep", "--json").json()["moved"]
        assert moved in ({}, {job.uuid: "interrupted"})
        return bool(moved)

    eventually(is_interrupted, timeout=PATIENCE)
    now = host_jobs.get(job.uuid)
    assert now is not None
    assert (now.status, now.error_reason_code) == ("interrupted", "owner_gone")
    assert runtime.jobs.holder("k") is None
    attempts = runtime.attempts
    eventually(lambda: attempts.of(job.id)[0].exit_code is not None, timeout=PATIENCE)
    # It ended by itself, since its job is no longer its own.
    assert attempts.of(job.id)[0].exit_code == ExitCode.REFUSED
    assert attempts.of(job.id)[0].signal is None


@contextmanager
def sleeping(user: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], user=user) as process:
        try:
            yield process
        finally:
            process.kill()


def test_one_that_ended_and_that_nobody_has_waited_for_is_interrupted_at_once(
    runtime: Runtime,
) -> None:
    with sleeping() as process:
        won = start(runtime, queue(runtime, lock_key="k"), worker=of_pid(process.pid))
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        settled = settle_row(runtime, won.fence.job_id)

    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == ("interrupted", "owner_gone")
    assert runtime.jobs.holder("k") is None
    assert_sound(runtime)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as somebody else")
def test_one_whom_we_may_not_signal_is_not_said_to_have_been_stopped(runtime: Runtime) -> None:
    with sleeping(user=SOMEBODY) as process:
        won = start(runtime, queue(runtime, lock_key="k"), worker=of_pid(process.pid))
        seen = owned(runtime, won.fence.job_id)
        os.seteuid(SOMEBODY_ELSE)
        try:
            with pytest.raises(PermissionError):
                os.kill(process.pid, signal.SIGTERM)
            assert not stop.end_owner(runtime, seen, grace=0.0)
        finally:
            os.seteuid(0)
        assert process.poll() is None

    assert owned(runtime, won.fence.job_id).job.status == "running"
    assert "kill" not in [action for action, *_ in history(runtime, won.fence.job_id)]
    assert runtime.jobs.holder("k") is not None


def test_one_that_is_gone_already_is_not_said_to_have_been_stopped(runtime: Runtime) -> None:
    with sleeping() as process:
        won = start(runtime, queue(runtime, lock_key="k"), worker=of_pid(process.pid))
    seen = owned(runtime, won.fence.job_id)

    assert stop.end_owner(runtime, seen, grace=0.0)
    assert "kill" not in [action for action, *_ in history(runtime, won.fence.job_id)]
    settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == ("interrupted", "owner_gone")
