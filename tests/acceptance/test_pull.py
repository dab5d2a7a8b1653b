"""Jobs that are pulled: every one once, in order, whatever stands in front of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flask_jobrunner import Job, JobRunner
from tests.helpers.job_fixtures import ALSO_STANDBY
from tests.helpers.supervising import (
    QUICK,
    Supervisors,
    ended,
    in_status,
)
from tests.helpers.waiting import eventually
from tests.host_acts import script


@pytest.fixture
def host_config(tmp_path: Path) -> dict[str, object]:
    return {
        **QUICK,
        "JOBRUNNER_HANDLERS": {"deadly.import": "tests.supervisor.deadly:handle"},
        "HOST_FACTORY": f"raise while {tmp_path / 'broken'}",
    }


@ALSO_STANDBY
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_supervisors_run_200_jobs_each_once_and_in_order(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    # Every job is a process: all of them where two supervisors get least in each other's way.
    count = 200 if pull.runtime.database.dialect == "postgresql" else 48
    ledger = tmp_path / "ledger"
    made: list[Job] = []
    for number in range(count):
        acts = script(("return", number), ledger=ledger)
        acts["ledger"] = str(tmp_path / f"ledger-{number}")
        made.append(host_jobs.enqueue("host.script", acts, priority=number % 4).job)
    first, second = (pull.work("--slots", 2, "--burst", ready=False) for _ in range(2))

    assert first.exit_code(timeout=800) == 0
    assert second.exit_code(timeout=100) == 0
    assert {job.status for job in ended(host_jobs, *made)} == {"succeeded"}
    for number in range(count):
        lines = (tmp_path / f"ledger-{number}").read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["start", "end"], number
    found = pull.columns("launched_at", "priority", "created_at", "id", "attempt")
    order = [(-priority, created, job_id) for _, priority, created, job_id, _ in sorted(found)]
    assert order == sorted(order)
    assert {attempt for *_, attempt in found} == {1}
    started = [entry["id"] for one in (first, second) for entry in one.told("started")]
    assert sorted(started) == sorted(job.id for job in made)
    assert min(len(one.told("started")) for one in (first, second)) > count // 10


@ALSO_STANDBY
def test_a_module_that_kills_its_process_is_poison_and_the_others_run(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    deadly = host_jobs.enqueue("deadly.import", priority=9, lock_key="k").job
    others = [host_jobs.enqueue("host.nothing").job for _ in range(2)]
    pull.work()

    (job,) = ended(host_jobs, deadly)
    assert (job.status, job.error_reason_code) == ("failed", "poison")
    assert job.error_message is not None
    assert "signal 11 (SIGSEGV)" in job.error_message
    assert job.attempt == 3
    assert {other.status for other in ended(host_jobs, *others)} == {"succeeded"}
    assert host_jobs.find(lock_key="k").jobs == []
    (waited,) = (o.started_at for o in ended(host_jobs, others[0]))
    assert waited is not None
    assert waited - deadly.created_at < timedelta(seconds=60)
    assert [a.end_status for a in pull.runtime.attempts.of(job.id)] == ["queued"] * 2 + ["failed"]


@ALSO_STANDBY
def test_a_factory_that_raises_for_a_while_costs_no_job(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    made = [host_jobs.enqueue("host.nothing").job for _ in range(3)]
    working = pull.work("--slots", 2)

    working.tells("backing_off", 3)
    assert [job[0] for job in pull.columns("status")] == ["queued"] * 3
    assert set(pull.columns("attempt", "unstarted_deaths")) == {(1, 0)}
    broken.unlink()
    assert {job.status for job in ended(host_jobs, *made)} == {"succeeded"}
    working.stop()

    told = working.told("backing_off")
    assert len(told) <= 6, "once per back-off"
    assert "the factory is broken on purpose" in told[0]["message"]
    assert "stay in the queue; the next try is in " in told[0]["message"].splitlines()[0]
    assert told[1]["message"].endswith(" Its last words are the same as before.")
    assert "\n" not in told[1]["message"]
    assert told[0]["pause"] < told[1]["pause"] < told[2]["pause"]
    assert len(working.told("recovered")) == 1
    assert [event.action for event in pull.runtime.events.of(made[0].id)] == [
        "enqueue",
        "claim",
        "finish",
    ]


def test_what_is_to_begin_later_begins_later(host_jobs: JobRunner, pull: Supervisors) -> None:
    pull.work("--slots", 2)
    at = datetime.now(UTC) + timedelta(seconds=4)
    later = host_jobs.enqueue("host.nothing", not_before=at, priority=9).job
    now = host_jobs.enqueue("host.nothing").job
    assert later.not_before == at

    ended(host_jobs, later, now)
    (late,), (early,) = pull.columns("launched_at")
    assert early < at.timestamp() * 1_000_000 <= late


def test_only_the_types_that_were_asked_for_are_taken(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    other = host_jobs.enqueue("host.nothing", priority=9).job
    mine = host_jobs.enqueue("host.class").job
    working = pull.work("--types", "host.c*", "--types", "none.*", "--burst", ready=False)

    assert working.exit_code() == 0
    assert ended(host_jobs, mine)[0].status == "succeeded"
    assert pull.columns("status") == [("queued",), ("succeeded",)]
    assert other.status == "queued"


@ALSO_STANDBY
def test_an_ended_job_is_requeued_later_by_another_attempt(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    made = host_jobs.enqueue("host.script", script(("raise", "ValueError", "no"))).job
    pull.work()
    (failed,) = ended(host_jobs, made)
    assert failed.error_class == "ValueError"

    result = host_jobs.requeue(made.uuid, delay=2)
    assert (result.status, result.ok) == ("queued", True)
    assert result.job is not None
    assert result.job.not_before is not None
    (again,) = ended(host_jobs, result.job)
    assert (again.status, again.attempt) == ("failed", 2)
    assert again.started_at is not None
    assert again.started_at >= result.job.not_before
    assert [attempt.mode for attempt in pull.runtime.attempts.of(made.id)] == ["trusted"] * 2


def test_a_cancelled_job_of_the_queue_never_starts(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    made = host_jobs.enqueue("host.script", script(ledger=ledger)).job
    assert host_jobs.cancel(made.uuid).status == "cancelled"

    assert pull.work("--burst", ready=False).exit_code() == 0
    assert not ledger.exists()


def test_a_running_job_is_cancelled(host_jobs: JobRunner, pull: Supervisors) -> None:
    made = host_jobs.enqueue("host.script", script(("wait_for_cancel",), ("return", 3))).job
    pull.work()
    in_status(host_jobs, made, "running")

    assert host_jobs.cancel(made.uuid).status == "cancel_requested"
    assert ended(host_jobs, made)[0].status == "cancelled"


@pytest.mark.parametrize(
    "host_config", [{**QUICK, "JOBRUNNER_HANDLERS": {"rough.gil": "tests.child.rough:hold_gil"}}]
)
def test_a_job_that_runs_for_too_long_is_ended(host_jobs: JobRunner, pull: Supervisors) -> None:
    made = host_jobs.enqueue("host.budget", script(("ignore_signals",), ("pause", 600))).job
    pull.work()

    (job,) = ended(host_jobs, made)
    assert (job.status, job.error_reason_code) == ("failed", "run_timeout")


# The supervisor was built from r1, and what it starts is built from r2, which came meanwhile.
BEFORE_THE_DEPLOY = """
import json, os, tests.host_app as host
real = host.create_app
def create_app():
    now = os.environ[host.CONFIG]
    os.environ[host.CONFIG] = json.dumps(json.loads(now) | {"JOBRUNNER_REVISION": "r1"})
    try:
        return real()
    finally:
        os.environ[host.CONFIG] = now
host.create_app = create_app
"""


@pytest.mark.parametrize("host_config", [{**QUICK, "JOBRUNNER_REVISION": "r2"}])
def test_jobs_of_another_revision_wait_for_supervisors_of_theirs(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    old, new, any_other = (host_jobs.enqueue("host.nothing").job for _ in range(3))
    pull.change(old, revision="r1")
    pull.change(any_other, revision=None)

    assert pull.work("--burst", ready=False).exit_code() == 0
    assert {job.status for job in ended(host_jobs, new, any_other)} == {"succeeded"}
    assert [row[0] for row in pull.columns("status")] == ["queued", "succeeded", "succeeded"]
    assert host_jobs.requeue(old.uuid).status == "queued"
    assert pull.work("--burst", ready=False).exit_code() == 0
    assert ended(host_jobs, old)[0].attempt == 2


@pytest.mark.parametrize("host_config", [{**QUICK, "JOBRUNNER_REVISION": "r2"}])
def test_a_supervisor_from_before_a_deploy_leaves_pinned_jobs_to_others(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    pinned, unpinned = (host_jobs.enqueue("host.nothing").job for _ in range(2))
    pull.change(pinned, revision="r1")
    pull.change(unpinned, revision=None)
    working = pull.work_patched(BEFORE_THE_DEPLOY)

    assert ended(host_jobs, unpinned)[0].status == "succeeded"
    assert "Restart it" in working.tells("outdated")["message"]
    assert len(working.told("outdated")) == 1
    assert working.told("backing_off") == []
    columns = ("status", "attempt", "unstarted_deaths", "dispatch_until")
    assert pull.columns(*columns)[0] == ("queued", 1, 0, None)
    rows = pull.runtime.supervisors
    eventually(lambda: [one.revision for one in rows.all()] == [None], timeout=60)
