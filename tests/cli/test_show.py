"""`flask jobs show`."""

from __future__ import annotations

from flask_jobrunner import JobRunner
from tests.helpers.commands import Commands
from tests.host_acts import script


def test_the_first_line_says_where_the_job_stands(commands: Commands, host_jobs: JobRunner) -> None:
    host_jobs.run_inline("host.nothing", title="Nothing at all", owner="ann", reference="x:1")
    answer = commands("show", 1)

    assert answer.exit_code == 0
    assert answer.out.startswith("Finished after ")
    for part in ("Nothing at all", "ann", "x:1", "host.nothing", "succeeded", "Timeline"):
        assert part in answer.out


def test_uuid_and_id_name_the_same_job(commands: Commands, host_jobs: JobRunner) -> None:
    job = host_jobs.run_inline("host.nothing").job
    assert job is not None

    for name in (job.uuid, job.uuid.upper(), job.id):
        assert commands("show", name, "--json").json()["job"]["uuid"] == job.uuid


def test_no_such_job_exits_3_and_no_name_of_one_2(commands: Commands) -> None:
    missing = commands("show", "00000000-0000-7000-8000-000000000000")

    assert missing.exit_code == 3
    assert missing.err.startswith("Error: There is no job")
    assert commands("show", 77).exit_code == 3
    assert commands("show", "abc").exit_code == 2
    assert commands("show", "-- -1").exit_code == 2


def test_secrets_are_masked_in_text_and_json(commands: Commands, host_jobs: JobRunner) -> None:
    payload = {"do": [["return", {"api_key": "k-123", "rows": 7}]], "password": "hunter2"}
    host_jobs.run_inline("host.script", payload)
    text, as_json = commands("show", 1), commands("show", 1, "--json")

    assert "hunter2" not in text.out + as_json.out
    assert "k-123" not in text.out + as_json.out
    assert as_json.json()["result"] == {"api_key": "********", "rows": 7}
    assert '"rows": 7' in text.out


def test_an_error_is_shown_with_its_traceback(commands: Commands, host_jobs: JobRunner) -> None:
    host_jobs.run_inline("host.script", script(("raise", "ValueError", "no luck")))
    answer = commands("show", 1)

    assert answer.exit_code == 0
    assert answer.out.startswith("Failed after ")
    assert "Traceback (most recent call last)" in answer.out
    assert "ValueError: no luck" in answer.out
    assert commands("show", 1, "--json").json()["error"]["reason_code"] == "handler_raised"


def test_a_killed_process_has_its_autopsy_and_its_last_words(
    commands: Commands, host_jobs: JobRunner
) -> None:
    acts = script(("print", "famous last words"), ("kill", 9))
    started = host_jobs.start("host.script", acts)
    host_jobs.wait(started.job.uuid, 20)
    answer = commands("show", started.job.uuid)
    (attempt,) = commands("show", started.job.uuid, "--json").json()["attempts"]

    assert answer.out.startswith("Interrupted after ")
    assert "killed by signal 9 (SIGKILL), " in answer.out
    assert "famous last words" in answer.out
    assert attempt["signal"] == 9
    assert attempt["autopsy"].startswith("killed by signal 9 (SIGKILL)")


def test_what_a_job_wrote_cannot_act_on_the_terminal(
    commands: Commands, host_jobs: JobRunner
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202etxt"
    host_jobs.run_inline(
        "host.script", {"do": [["say", "info", evil]], "note": evil}, title="a\tb", owner="o\x1b[2J"
    )
    answer = commands("show", 1)

    assert "owned" in answer.out
    assert not set(answer.out) & {"\x1b", "\x07", "\u202e"}


def test_only_the_last_lines_are_shown_with_the_way_to_the_others(
    commands: Commands, host_jobs: JobRunner
) -> None:
    acts = [("say", "info", f"line {number}") for number in range(1, 41)]
    host_jobs.run_inline("host.script", script(*acts))
    heading, *lines = commands("show", 1).out.partition("Last lines")[2].splitlines()

    assert heading == ", all of them with: flask jobs logs 1"
    assert len(lines) == 10
    assert lines[-2:] == ["  line 40", "  Succeeded"]
