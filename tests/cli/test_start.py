"""`flask jobs start`."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from flask_jobrunner.cli import new_job
from tests.helpers.commands import Commands
from tests.helpers.waiting import eventually
from tests.host_acts import script


def payload(*acts: tuple[object, ...]) -> str:
    return json.dumps(script(*acts))


def test_a_start_is_launched_detached_and_told_in_a_line(
    commands: Commands, host_jobs: JobRunner
) -> None:
    answer = commands.process("start", "host.nothing", "--title", "Little", "--reference", "x:1")
    (job,) = host_jobs.find().jobs

    assert answer.exit_code == 0
    assert answer.out == f"Started host.nothing: job {job.uuid} (id {job.id}).\n"
    assert (job.title, job.reference) == ("Little", "x:1")
    assert host_jobs.wait(job.uuid, 20).status == "succeeded"


def test_the_actor_is_the_user_of_the_system(commands: Commands, host_jobs: JobRunner) -> None:
    commands("start", "host.nothing")

    assert host_jobs.find().jobs[0].actor == f"cli:{getpass.getuser()}"


def test_the_applications_own_actor_goes_first(
    commands: Commands, host_jobs: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = commands.app.extensions["jobrunner"].hooks
    monkeypatch.setattr(hooks, "actor", lambda: "ann")
    commands("start", "host.nothing")
    monkeypatch.setattr(hooks, "actor", lambda: 1 / 0)  # one that only works in a request
    commands("start", "host.nothing")

    actors = [job.actor for job in host_jobs.find().jobs]
    assert actors == [f"cli:{getpass.getuser()}", "ann"]


def test_wait_shows_the_log_and_exits_by_the_status(commands: Commands) -> None:
    good = commands("start", "host.script", "--payload", payload(("print", "hello")), "--wait")
    bad = commands("start", "host.script", "--payload", payload(("raise", "ValueError", "no")),
                   "--wait")  # fmt: skip
    dead = commands("start", "host.script", "--payload", payload(("kill", 9)), "--wait")

    assert (good.exit_code, bad.exit_code, dead.exit_code) == (0, 1, 6)
    assert "\nhello\n" in good.out
    assert good.out.endswith("Succeeded\n")
    assert "Finished after" in good.err
    assert "Failed (handler_raised): no" in bad.out
    assert "signal 9 (SIGKILL)" in dead.out


def test_wait_ends_with_4_and_leaves_the_job_alone(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    acts = payload(("wait_for_file", str(go)))
    answer = commands("start", "host.script", "--payload", acts, "--wait=0.5")
    job = host_jobs.find().jobs[0]

    assert answer.exit_code == 4
    assert f"the job goes on. Follow it with: flask jobs logs -f {job.id}\n" in answer.err
    assert job.is_active
    go.touch()
    assert host_jobs.wait(job.uuid, 20).status == "succeeded"


def test_json_is_the_result_and_with_wait_the_ended_job(commands: Commands) -> None:
    secret = '{"password": "hunter2", "do": []}'
    started = commands("start", "host.script", "--payload", secret, "--json")
    ended = commands("start", "host.script", "--payload", secret, "--json", "--wait")

    assert started.json()["status"] == "started"
    assert started.json()["job"]["payload"]["password"] == "********"
    assert ended.json()["status"] == "succeeded"
    assert "hunter2" not in started.out + ended.out


def test_a_held_lock_key_exits_5_and_names_the_holder(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    acts = payload(("wait_for_file", str(go)))
    commands("start", "host.script", "--payload", acts, "--lock-key", "k")
    second = commands("start", "host.script", "--lock-key", "k")
    as_json = commands("start", "host.script", "--lock-key", "k", "--json", "--wait")
    holder = host_jobs.find(lock_key="k").jobs[0]
    go.touch()

    assert (second.exit_code, as_json.exit_code) == (5, 5)
    assert second.out == ""
    assert f"Not started (already_active). Job {holder.uuid} holds this lock key" in second.err
    assert as_json.json()["job"]["uuid"] == holder.uuid
    eventually(lambda: host_jobs.find(lock_key="k").jobs == [], timeout=60)


def test_the_payload_comes_from_the_argument_a_file_or_standard_input(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    file = tmp_path / "order.json"
    file.write_text('\ufeff{"count": 2}', encoding="utf-8")
    commands("start", "host.validated", "--payload", '{"count": 1}')
    commands("start", "host.validated", "--payload", f"@{file}")
    commands("start", "host.validated", "--payload", "-", given='{"count": 3}')

    counts = [(job.payload or {})["count"] for job in host_jobs.find().jobs]
    assert counts == [3, 2, 1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"count": NaN}', "NaN is not JSON"),
        ('{"count": 1, "count": 2}', "duplicate keys"),
        ("@missing.json", "missing.json cannot be read: No such file"),
        ("{}", "refused: ValueError"),
    ],
)
def test_a_payload_that_cannot_be_taken_is_a_usage_error(
    commands: Commands, host_jobs: JobRunner, given: str, told: str
) -> None:
    answer = commands("start", "host.validated", "--payload", given)

    assert answer.exit_code == 2
    assert told in answer.err
    assert "Traceback" not in answer.err
    assert host_jobs.find().jobs == []


def test_input_that_is_no_text_or_too_much_is_a_usage_error(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_text = commands("start", "host.nothing", "--payload", "-", given=b'{"name": "\xff"}')
    monkeypatch.setattr(new_job, "PAYLOAD_INPUT_MAX", 20)
    too_much = commands("start", "host.nothing", "--payload", "-", given='{"name": "a b c d e f"}')

    assert (no_text.exit_code, too_much.exit_code) == (2, 2)
    assert "on standard input is not UTF-8" in no_text.err
    assert "on standard input is too large" in too_much.err


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_ACK_TIMEOUT": 0.001}])
def test_a_launch_that_is_not_known_of_yet_says_so(
    commands: Commands, host_jobs: JobRunner
) -> None:
    answer = commands("start", "host.nothing")
    job = host_jobs.find().jobs[0]

    assert answer.exit_code == 0
    assert answer.out.startswith("Launched host.nothing: job ")
    assert "has not taken the job yet" in answer.err
    assert host_jobs.wait(job.uuid, 30).status == "succeeded"


def test_an_unknown_type_names_the_known_ones(commands: Commands) -> None:
    answer = commands("start", "nope")

    assert answer.exit_code == 2
    assert "host.nothing" in answer.err


def test_a_word_after_wait_is_explained(commands: Commands) -> None:
    answer = commands("start", "--wait", "host.nothing")

    assert answer.exit_code == 2
    assert "write --wait=30, or --wait after everything else" in answer.err


@pytest.mark.parametrize("host_config", [{"HOST_FACTORY": "raise", "JOBRUNNER_ACK_TIMEOUT": 60}])
def test_a_process_that_cannot_start_exits_1_with_its_last_words(commands: Commands) -> None:
    answer = commands("start", "host.nothing")

    assert answer.exit_code == 1
    assert "Not started (launch_failed)" in answer.err
    assert "the factory is broken on purpose" in answer.err
