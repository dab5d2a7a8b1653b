"""Supervisors and children that are killed at the worst moments: nothing runs twice."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.model.records import NewJob
from flask_jobrunner.protocol.identity import uuid7
from tests.helpers.job_fixtures import ALSO_STANDBY
from tests.helpers.supervising import QUICK, Supervisors, ended, in_status, ledger_of
from tests.helpers.waiting import eventually, stays
from tests.host_acts import script

# What a supervisor does in place of a step of its own.
KILLED_BEFORE_SPAWN = """
import os, signal
from flask_jobrunner.supervisor.crew import Crew
Crew.start = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""
KILLED_BEFORE_HANDOFF = """
import os, signal
from flask_jobrunner.shim.backflow import Backflow
Backflow.send = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""
KILLED_AFTER_HANDOFF = """
import os, signal
from flask_jobrunner.supervisor.crew import Crew
real = Crew.start
def start(self, handed):
    real(self, handed)
    os.kill(os.getpid(), signal.SIGKILL)
Crew.start = start
"""
STOPPED_BEFORE_SPAWN = """
import os, signal
from flask_jobrunner.supervisor.crew import Crew
real = Crew.start
def start(self, handed):
    os.kill(os.getpid(), signal.SIGSTOP)
    real(self, handed)
Crew.start = start
"""


@pytest.fixture
def host_config() -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_RUN_BUDGET": 3600, "JOBRUNNER_QUEUE_BUDGET": 3600}


def starts(ledger: Path) -> list[str]:
    """Which attempts began."""
    return [line.split()[1] for line in ledger_of(ledger).elements() if line.startswith("start")]


@ALSO_STANDBY
@pytest.mark.timeout(400)
def test_when_a_supervisor_is_killed_its_jobs_finish_and_a_new_one_keeps_to_its_slots(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    files = [tmp_path / f"go-on-{n}" for n in range(3)]
    made = [
        host_jobs.enqueue(
            "host.script",
            script(("wait_for_file", str(files[n])), ("return", n), ledger=tmp_path / f"l{n}"),
        ).job
        for n in range(3)
    ]
    first = pull.work("--slots", 3)
    for number, job in enumerate(made):
        eventually(partial(starts, tmp_path / f"l{number}"), timeout=90)
        in_status(host_jobs, job, "running")
    deadlines = pull.columns("run_deadline")
    children = first.children()
    assert len(children) == 3
    first.kill()
    later = [host_jobs.enqueue("host.nothing").job for _ in range(2)]

    second = pull.work("--slots", 3)
    stays(lambda: not second.told("started") and not second.children(), seconds=2)
    files[0].touch()
    assert ended(host_jobs, made[0])[0].status == "succeeded"
    assert {job.status for job in ended(host_jobs, *later)} == {"succeeded"}
    for file in files[1:]:
        file.touch()

    assert {(job.status, job.attempt) for job in ended(host_jobs, *made)} == {("succeeded", 1)}
    assert [starts(tmp_path / f"l{n}") for n in range(3)] == [["1"]] * 3
    assert pull.columns("run_deadline")[:3] == deadlines
    (row,) = pull.runtime.supervisors.all()
    assert row.process.pid == second.pid, "the row of the dead one is gone"
    second.stop()


@pytest.mark.parametrize("patch", [KILLED_BEFORE_SPAWN, KILLED_BEFORE_HANDOFF])
def test_a_job_whose_supervisor_died_before_the_handoff_waits_for_the_next(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path, patch: str
) -> None:
    made = host_jobs.enqueue("host.script", script(ledger=tmp_path / "l"), lock_key="k").job
    assert pull.work_patched(patch, ready=False).exit_code() == -signal.SIGKILL
    (before,) = pull.columns("status", "attempt", "queue_deadline", "dispatch_until")
    assert before[:2] == ("queued", 1)
    assert before[3] is not None

    second = pull.work()
    stays(lambda: not second.children(), seconds=1, message="the reservation is respected")
    pull.change(made, dispatch_until=1)
    (job,) = ended(host_jobs, made)
    assert (job.status, job.attempt) == ("succeeded", 1)
    assert starts(tmp_path / "l") == ["1"]


def test_a_child_that_got_its_job_from_a_supervisor_that_died_finishes_it_alone(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    made = host_jobs.enqueue("host.script", script(("return", 1), ledger=tmp_path / "l")).job
    assert pull.work_patched(KILLED_AFTER_HANDOFF, ready=False).exit_code() == -signal.SIGKILL
    pull.work()

    (job,) = ended(host_jobs, made)
    assert (job.status, job.attempt) == ("succeeded", 1)
    assert starts(tmp_path / "l") == ["1"]


def test_a_supervisor_that_slept_through_its_reservation_starts_nothing_twice(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    made = host_jobs.enqueue("host.script", script(("return", 1), ledger=tmp_path / "l")).job
    sleeper = pull.work_patched(STOPPED_BEFORE_SPAWN)
    eventually(lambda: pull.columns("dispatch_by") != [(None,)], timeout=60)
    pull.change(made, dispatch_until=1)
    pull.work("--burst", ready=False).exit_code()
    assert ended(host_jobs, made)[0].status == "succeeded"

    sleeper.send(signal.SIGCONT)
    sleeper.tells("not_taken")
    assert sleeper.told("backing_off") == []
    assert starts(tmp_path / "l") == ["1"]
    sleeper.stop()


@pytest.mark.parametrize("pull", [0, 1], indirect=True, ids=["new", "standby"])
@pytest.mark.parametrize(
    ("act", "evidence"),
    [
        (("kill", signal.SIGKILL), ("signal", signal.SIGKILL)),
        (("segfault",), ("signal", signal.SIGSEGV)),
        (("os_exit", 0), ("exit_code", 0)),
    ],
    ids=str,
)
def test_a_job_whose_process_dies_is_interrupted_with_evidence(
    host_jobs: JobRunner, pull: Supervisors, act: tuple[object, ...], evidence: tuple[str, int]
) -> None:
    made = host_jobs.enqueue("host.script", script(("print", "last words"), act)).job
    working = pull.work("--burst", ready=False)

    assert working.exit_code() == 0
    (job,) = ended(host_jobs, made)
    assert (job.status, job.error_reason_code) == ("interrupted", "process_died")
    (attempt,) = pull.runtime.attempts.of(made.id)
    assert getattr(attempt, evidence[0]) == evidence[1]
    assert attempt.peak_rss
    lines = [line.message for line in host_jobs.status(made.uuid).logs]
    assert "last words" in lines
    (told,) = working.told("ended")
    assert (told["status"], told[evidence[0]]) == ("interrupted", evidence[1])


@ALSO_STANDBY
def test_a_job_that_nobody_knows_fails_and_stops_nobody(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    unknown = NewJob(
        uuid=uuid7(),
        job_type="gone.since.the.deploy",
        claim_mode="trusted",
        credential_hash=None,
        claim_window=None,
    )
    made = pull.runtime.jobs.add(unknown)
    assert made is not None
    other = host_jobs.enqueue("host.nothing").job

    assert pull.work("--burst", ready=False).exit_code() == 0
    failed, well = ended(host_jobs, made, other)
    assert (failed.status, failed.error_reason_code) == ("failed", "handler_not_registered")
    assert well.status == "succeeded"


@ALSO_STANDBY
def test_what_a_job_leaves_running_is_ended_before_its_slot_is_free(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    acts = script(("orphan", 600), ("thread", 600), ("return", 1))
    made = host_jobs.enqueue("host.script", acts).job
    working = pull.work("--burst", ready=False)

    assert working.exit_code() == 0
    assert ended(host_jobs, made)[0].status == "succeeded"
    assert not [one for one in _sleepers() if one != os.getpid()]


def _sleepers() -> list[int]:
    """Processes of this test that sleep for 600 s."""
    from tests.helpers.processes import processes_with

    mark = os.environ["HOST_TEST"]
    return [seen.pid for seen in processes_with(mark) if "sleep 600" in seen.command]


def test_a_row_that_was_removed_is_made_again(host_jobs: JobRunner, pull: Supervisors) -> None:
    working = pull.work("--types", "host.*", "--slots", 2)
    (row,) = pull.runtime.supervisors.all()
    pull.runtime.supervisors.remove([row.uuid])

    (again,) = eventually(pull.runtime.supervisors.all, timeout=60)
    assert (again.uuid, again.types, again.slots) == (row.uuid, ("host.*",), 2)
    assert again.process.pid == working.pid
    working.stop()


def test_without_a_supervisor_a_job_waits_for_as_long_as_it_may(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    made = host_jobs.enqueue("host.nothing", lock_key="k").job
    pull.change(made, queue_deadline=1)

    found = host_jobs.get(made.uuid)
    assert found is not None
    assert (found.status, found.error_reason_code) == ("failed", "queue_timeout")
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"


def test_the_sweep_of_a_supervisor_ends_what_others_left(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    waited = host_jobs.enqueue("host.nothing", priority=-1).job
    pull.change(waited, queue_deadline=1)
    working = pull.work()

    (job,) = ended(host_jobs, waited)
    assert job.error_reason_code == "queue_timeout"
    assert working.tells("swept")["job"] == waited.uuid
    assert isinstance(job, Job)
