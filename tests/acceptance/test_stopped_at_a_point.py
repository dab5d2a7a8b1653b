"""A job's process that stands still at the worst moment: before its start marker, in its end."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.recovery.settle import settle_row
from flask_jobrunner.recovery.sweep import sweep_once
from flask_jobrunner.runtime import Runtime
from tests.helpers.commands import Commands
from tests.helpers.faulting import Fault
from tests.helpers.processes import is_running, look_at
from tests.helpers.stores import ELSEWHERE, assert_sound, change, history, owned
from tests.helpers.supervising import PATIENCE, Supervisors, ledger_of
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_HEARTBEAT": 0.5, "JOBRUNNER_LEASE": 2}


@dataclass
class Stopper:
    """Starts a job whose process stops at a point, and looks at what becomes of it."""

    jobs: JobRunner
    runtime: Runtime
    patch: pytest.MonkeyPatch
    folder: Path

    def start(self, point: str) -> tuple[Job, int]:
        """The job, and its process, which stands still."""
        fault = Fault(point, "stop", "job", mark=str(self.folder / "mark"), database="")
        with self.patch.context() as only_here:
            for name, value in fault.environ().items():
                only_here.setenv(name, value)
            acts = script(("return", 7), ledger=self.folder / "ledger")
            job = self.jobs.start("host.script", acts, lock_key="k", wait=False).job
        pid = eventually(lambda: fault.pid or 0, timeout=PATIENCE)
        eventually(lambda: getattr(look_at(pid), "state", None) == "T", timeout=PATIENCE)
        return job, pid

    def told(self) -> list[str]:
        """The first words of what the handler said."""
        return [line.split()[0] for line in ledger_of(self.folder / "ledger").elements()]


@pytest.fixture
def stopper(
    host_jobs: JobRunner, pull: Supervisors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Stopper:
    return Stopper(host_jobs, pull.runtime, monkeypatch, tmp_path)


@pytest.mark.parametrize("point", ["claim.committed", "start.before"])
def test_before_its_start_and_beyond_its_lease_it_goes_on_where_it_is_seen(
    stopper: Stopper, point: str
) -> None:
    job, pid = stopper.start(point)
    if point == "claim.committed":  # else it holds the row's lock, and nobody could judge it
        _wait_for_the_lease(stopper.runtime, job)
        assert sweep_once(stopper.runtime).moved == {}
        assert stopper.jobs.status(job.uuid).job.status == "running"  # type: ignore[union-attr]
    os.kill(pid, signal.SIGCONT)

    done = stopper.jobs.wait(job.uuid, PATIENCE)
    assert (done.status, done.attempt) == ("succeeded", 1)
    assert stopper.told() == ["start", "end"]
    assert stopper.runtime.jobs.holder("k") is None


def test_before_its_start_and_judged_from_elsewhere_it_starts_nothing(stopper: Stopper) -> None:
    job, pid = stopper.start("claim.committed")
    _is_elsewhere(stopper.runtime, job)
    _wait_for_the_lease(stopper.runtime, job)
    settled = settle_row(stopper.runtime, job.id)
    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == ("interrupted", "not_started")
    assert stopper.runtime.jobs.holder("k") is None
    os.kill(pid, signal.SIGCONT)

    attempts = stopper.runtime.attempts
    eventually(lambda: attempts.of(job.id)[0].exit_code is not None, timeout=PATIENCE)
    assert attempts.of(job.id)[0].exit_code == ExitCode.REFUSED
    now = stopper.jobs.get(job.uuid)
    assert now is not None
    assert (now.status, now.error_reason_code) == ("interrupted", "not_started")
    assert stopper.told() == []
    assert_sound(stopper.runtime)


def test_a_forced_stop_during_the_last_commit_says_that_it_did_nothing(
    stopper: Stopper, commands: Commands
) -> None:
    """The transaction holds the row: the stop cannot even be recorded, and nobody is signalled."""
    job, pid = stopper.start("finish.before_commit")
    answer = commands.process("cancel", job.uuid, "--force")
    assert answer.exit_code == ExitCode.DATABASE
    assert is_running(pid)
    os.kill(pid, signal.SIGCONT)

    done = stopper.jobs.wait(job.uuid, PATIENCE)
    _ended_once(stopper, done, ("succeeded", None))


def test_a_forced_stop_after_the_last_commit_comes_too_late(
    stopper: Stopper, commands: Commands
) -> None:
    job, pid = stopper.start("finish.committed")
    answer = commands.process("cancel", job.uuid, "--force")
    assert "has ended already: succeeded" in answer.out
    assert is_running(pid)
    os.kill(pid, signal.SIGCONT)

    eventually(lambda: not is_running(pid), timeout=PATIENCE)
    done = stopper.jobs.get(job.uuid)
    assert done is not None
    _ended_once(stopper, done, ("succeeded", None))


def _ended_once(stopper: Stopper, done: Job, end: tuple[str, str | None]) -> None:
    assert (done.status, done.error_reason_code) == end
    assert stopper.told() == ["start", "end"]
    assert stopper.runtime.jobs.holder("k") is None
    ends = [to for _, _, to in history(stopper.runtime, done.id) if to == end[0]]
    assert len(ends) == 1
    assert_sound(stopper.runtime)


def _is_elsewhere(runtime: Runtime, job: Job) -> None:
    """Let the row say that its owner and the owner's parent run on another host."""
    place = {"host": ELSEWHERE.host, "boot": ELSEWHERE.boot, "pid_ns": ELSEWHERE.pid_ns}
    of = [f"{who}_{name}" for who in ("worker", "parent") for name in place]
    change(runtime, job.id, **dict(zip(of, [*place.values()] * 2, strict=True)))


def _wait_for_the_lease(runtime: Runtime, job: Job) -> None:
    def is_over() -> bool:
        seen = owned(runtime, job.id)
        return (seen.lease_until or 0) < seen.now

    eventually(is_over, timeout=PATIENCE)
