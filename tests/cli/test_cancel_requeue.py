"""`flask jobs cancel` and `flask jobs requeue`."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from tests.helpers.commands import Commands
from tests.host_acts import script

STEPS = script(("steps", 200, 0.1))


def test_a_running_job_is_asked_and_says_when_it_stopped(
    commands: Commands, host_jobs: JobRunner
) -> None:
    job = host_jobs.start("host.script", STEPS).job
    asked = commands("cancel", job.uuid)
    waited = commands("cancel", job.id, "--wait=30")
    over = commands("cancel", job.id)

    assert asked.exit_code == 0
    assert asked.out == f"Asked job {job.uuid} to stop; it does so at its next checkpoint.\n"
    assert waited.exit_code == 0
    assert "Cancelled after " in waited.err
    assert over.exit_code == 0
    assert over.out == f"Job {job.uuid} has ended already: cancelled.\n"
    actor = f"cli:{getpass.getuser()}"
    events = commands("show", job.id, "--json").json()["events"]
    assert [event["actor"] for event in events if event["action"] == "cancel"] == [actor]


def test_cancel_with_wait_exits_by_the_status(commands: Commands, host_jobs: JobRunner) -> None:
    host_jobs.run_inline("host.script", script(("raise", "ValueError", "no")))
    stubborn = host_jobs.start("host.script", script(("pause", 60))).job

    assert commands("cancel", 1).exit_code == 0
    assert commands("cancel", 1, "--wait").exit_code == 1
    assert commands("cancel", stubborn.id, "--wait=0.3").exit_code == 4


def test_cancel_as_json_is_the_result(commands: Commands, host_jobs: JobRunner) -> None:
    host_jobs.run_inline("host.nothing")
    answer = commands("cancel", 1, "--json").json()

    assert (answer["status"], answer["ok"]) == ("already_terminal", False)
    assert commands("cancel", 2, "--json").exit_code == 3


def test_requeue_runs_the_next_attempt_and_shows_only_its_lines(
    commands: Commands, host_jobs: JobRunner
) -> None:
    host_jobs.run_inline("host.script", script(("print", "x"), ("raise", "ValueError", "no")))
    answer = commands("requeue", 1, "--wait")
    job = host_jobs.get(1)
    assert job is not None

    assert answer.exit_code == 1
    assert job.attempt == 2
    assert answer.out.startswith(f"Job {job.uuid} runs again, as attempt 2.\n")
    assert "attempt 1" not in answer.out
    assert "--- attempt" not in answer.out


def test_requeue_takes_several_and_exits_by_the_first_that_could_not(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    flaky = script(("raise_unless_file", str(again)))
    host_jobs.run_inline("host.script", flaky)
    host_jobs.run_inline("host.nothing")
    host_jobs.run_inline("host.script", flaky)
    again.touch()
    answer = commands("requeue", 1, 2, 3, 1, 99, "--wait")
    one, two, three = (host_jobs.get(number) for number in (1, 2, 3))

    assert answer.exit_code == 5
    assert one is not None
    assert two is not None
    assert three is not None
    assert (one.attempt, two.attempt, three.attempt) == (2, 1, 2)
    assert (one.status, three.status) == ("succeeded", "succeeded")
    assert "does not run again (not_requeueable)" in answer.err
    assert "Job 99 does not run again (not_found)" in answer.err


def test_requeue_as_json_lists_every_answer(commands: Commands, host_jobs: JobRunner) -> None:
    host_jobs.run_inline("host.script", script(("raise", "ValueError", "no")))
    answer = commands("requeue", 1, 99, "--json", "--wait")

    assert answer.exit_code == 1
    assert [one["status"] for one in answer.json()] == ["started", "not_found"]
    assert answer.json()[0]["job"]["status"] == "failed"


def test_requeue_without_a_job_is_a_usage_error(commands: Commands) -> None:
    assert commands("requeue").exit_code == 2
    assert commands("requeue", 99).exit_code == 3


def test_all_jobs_of_a_status_run_again(commands: Commands, host_jobs: JobRunner) -> None:
    failed = [
        host_jobs.run_inline("host.script", script(("raise", "ValueError"))).job for _ in range(2)
    ]
    fine = host_jobs.run_inline("host.nothing").job
    uuids = [job.uuid for job in failed if job is not None]

    answer = commands("requeue", "--status", "failed", "--since", "1h", "--json")

    assert [one["asked"] for one in answer.json()] == uuids
    for uuid in uuids:
        now = host_jobs.wait(uuid, timeout=60)
        assert (now.status, now.attempt) == ("failed", 2)
    assert fine is not None
    assert host_jobs.get(fine.uuid).attempt == 1  # type: ignore[union-attr]
    none = commands("requeue", "--status", "failed", "--since", "1h", "--type", "host.none")
    assert (none.exit_code, none.err) == (0, "No such jobs.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("1", "--status", "failed", "--since", "1h"),
        ("--status", "failed"),
        ("--since", "1h"),
        ("1", "--type", "a.b"),
        ("--status", "succeeded", "--since", "1h"),
    ],
)
def test_which_jobs_are_meant_must_be_clear(commands: Commands, arguments: tuple[str, ...]) -> None:
    assert commands("requeue", *arguments).exit_code == 2
