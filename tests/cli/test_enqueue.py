"""`flask jobs enqueue`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.helpers.commands import Commands
from tests.helpers.supervising import QUICK, Supervisors, supervisors


@pytest.fixture
def host_config() -> dict[str, object]:
    return dict(QUICK)


def test_a_job_is_put_into_the_queue(commands: Commands, host_jobs: JobRunner) -> None:
    answer = commands("enqueue", "host.script", "--payload", '{"do": []}', "--priority", 7)

    assert answer.exit_code == 0, answer
    (job,) = host_jobs.find().jobs
    assert (job.status, job.priority, job.payload) == ("queued", 7, {"do": []})
    assert job.actor is not None
    assert job.actor.startswith("cli:")
    assert answer.out == f"Queued host.script: job {job.uuid} (id {job.id}).\n"
    assert "No supervisor is running" in answer.err


def test_it_may_begin_later(commands: Commands, host_jobs: JobRunner) -> None:
    at = datetime(2037, 1, 2, 3, 4, tzinfo=UTC)
    first = commands("enqueue", "host.nothing", "--not-before", "2037-01-02T04:04:00+01:00")
    second = commands("enqueue", "host.nothing", "--delay", 3600, "--json")

    assert "not before 2037-01-02 03:04:00 UTC" in first.out
    later, named = host_jobs.find().jobs
    assert named.not_before == at
    assert later.not_before is not None
    assert timedelta(minutes=55) < later.not_before - datetime.now(UTC) < timedelta(minutes=61)
    assert second.json()["job"]["uuid"] == later.uuid
    assert second.json()["ok"] is True


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--not-before", "tomorrow"), "is no time with a zone"),
        (("--not-before", "2037-01-02T03:04:00"), "is no time with a zone"),
        (("--not-before", "2037-01-02T03:04:00Z", "--delay", "1"), "either --not-before or"),
        (("--delay", "-1"), "-1"),
        (("--priority", "2000000000"), "priority must be a whole number"),
        (("--payload", "[]"), "must be a JSON object"),
    ],
)
def test_what_makes_no_sense_is_refused(
    commands: Commands, host_jobs: JobRunner, arguments: tuple[str, ...], told: str
) -> None:
    answer = commands("enqueue", "host.nothing", *arguments)

    assert answer.exit_code == 2
    assert told in answer.err
    assert host_jobs.find().jobs == []


def test_an_active_job_of_the_lock_key_is_told(commands: Commands, host_jobs: JobRunner) -> None:
    first = host_jobs.enqueue("host.nothing", lock_key="k").job
    answer = commands("enqueue", "host.nothing", "--lock-key", "k")

    assert answer.exit_code == 5
    assert f"Job {first.uuid} holds this lock key" in answer.err


def test_waiting_for_the_end(
    commands: Commands, host_app: Flask, host_jobs: JobRunner, tmp_path: Path
) -> None:
    found: Supervisors
    with supervisors(host_app, commands.environment, tmp_path) as found:
        found.work()
        well = commands(
            "enqueue", "host.script", "--payload", '{"do": [["print", "hello"]]}', "--wait=60"
        )
        bad = commands(
            "enqueue", "host.script", "--payload", '{"do": [["raise", "KeyError"]]}', "--wait"
        )

    assert well.exit_code == 0, well
    assert "hello" in well.out
    assert bad.exit_code == 1
    assert commands("enqueue", "host.nothing", "--wait=0.1").exit_code == 4


def test_a_job_of_the_queue_is_requeued(commands: Commands, host_jobs: JobRunner) -> None:
    job = host_jobs.enqueue("host.nothing").job
    host_jobs.cancel(job.uuid)
    answer = commands("requeue", job.id, "--delay", 60)

    assert answer.exit_code == 0
    assert answer.out == f"Job {job.uuid} waits again, as attempt 2.\n"
    found = host_jobs.get(job.uuid)
    assert found is not None
    assert found.not_before is not None


def test_a_job_that_nobody_takes_says_so_where_it_is_shown(
    commands: Commands, host_jobs: JobRunner
) -> None:
    job = host_jobs.enqueue("host.nothing", priority=3).job
    shown = commands("show", job.id).out

    assert "No supervisor is running, so nobody takes this job" in shown
    assert "Priority   3" in shown
