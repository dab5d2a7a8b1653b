"""`flask jobs logs`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from flask_jobrunner.cli import follow
from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.records import LogLine
from tests.helpers.commands import Commands
from tests.helpers.waiting import eventually
from tests.host_acts import script


@pytest.fixture
def numbered(host_jobs: JobRunner) -> JobRunner:
    """A job whose log is 2,500 numbered lines, and the runner's two."""
    acts = [("say", "info", f"line {number}") for number in range(1, 2501)]
    host_jobs.run_inline("host.script", script(*acts))
    return host_jobs


def test_every_line_is_shown_from_the_first(commands: Commands, numbered: JobRunner) -> None:
    lines = commands("logs", 1).out.splitlines()

    assert len(lines) == 2502
    assert [line for line in lines if line.startswith("line")] == [
        f"line {number}" for number in range(1, 2501)
    ]
    assert lines[-1] == "Succeeded"


def test_limit_means_the_newest_and_after_goes_on_from_a_number(
    commands: Commands, numbered: JobRunner
) -> None:
    def numbers(*arguments: object) -> list[int]:
        lines = commands("logs", 1, "--json", *arguments).out.splitlines()
        return [json.loads(line)["seq"] for line in lines]

    assert numbers("--limit", 3) == [2500, 2501, 2502]
    assert numbers("--after", 2500) == [2501, 2502]
    assert numbers("--after", 0, "--limit", 2) == [1, 2]
    assert numbers("--after", 9999) == []
    assert len(numbers("--limit", 9999)) == 2502


def test_levels_context_and_times_are_shown(commands: Commands, host_jobs: JobRunner) -> None:
    acts = script(("say", "warning", "careful", {"rows": 3, "password": "hunter2"}))
    host_jobs.run_inline("host.script", acts)
    plain, stamped = commands("logs", 1), commands("logs", 1, "--timestamps")

    assert 'WARNING careful  rows=3 password="********"\n' in plain.out
    assert "hunter2" not in plain.out + stamped.out + commands("logs", 1, "--json").out
    year = f"{host_jobs.find().jobs[0].created_at:%Y-}"
    assert all(line.startswith(year) for line in stamped.out.splitlines())


def test_a_new_attempt_has_a_heading(commands: Commands, host_jobs: JobRunner) -> None:
    host_jobs.run_inline("host.script", script(("raise", "ValueError", "no")))
    host_jobs.requeue(1)
    host_jobs.wait(1, 20)
    answer = commands("logs", 1)

    assert answer.out.count("--- attempt 2 ---\n") == 1
    assert "--- attempt 1 ---" not in answer.out


def test_follow_shows_a_running_jobs_lines_as_they_come_and_all_of_them(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    acts = script(
        ("print", "one"), ("wait_for_file", str(first)),
        ("print_lines", 3000, "row"), ("wait_for_file", str(second)),
        ("print", "the end"),
    )  # fmt: skip
    job = host_jobs.start("host.script", acts).job
    with commands.terminal("logs", "-f", job.uuid) as terminal:
        terminal.shows("one\n")
        first.touch()
        terminal.shows("row 3000\n")
        second.touch()
        assert terminal.exit_code() == 0
        lines = terminal.read().splitlines()

    assert [line for line in lines if line.startswith("row")] == [
        f"row {number}" for number in range(1, 3001)
    ]
    assert lines.index("the end") < lines.index("Succeeded")
    assert "Finished after" in lines[-1]


def test_following_a_killed_job_shows_its_last_words(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    acts = script(("wait_for_file", str(go)), ("print", "these are the last"), ("kill", 9))
    job = host_jobs.start("host.script", acts).job
    with commands.terminal("logs", "-f", job.uuid) as terminal:
        terminal.shows("Started host.script")
        go.touch()
        assert terminal.exit_code() == 0

    assert "these are the last\n" in terminal.seen
    assert "signal 9 (SIGKILL)" in terminal.seen


def test_ctrl_c_ends_the_command_and_not_the_job(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    acts = script(("print", "hello"), ("wait_for_file", str(go)))
    job = host_jobs.start("host.script", acts).job
    with commands.terminal("logs", "-f", job.uuid) as terminal:
        terminal.shows("hello")
        terminal.interrupt()
        assert terminal.exit_code() == 130
        assert "the job goes on" in terminal.read()

    now = host_jobs.get(job.uuid)
    assert now is not None
    assert now.status == "running"
    go.touch()
    assert host_jobs.wait(job.uuid, 20).status == "succeeded"


def test_ctrl_c_during_wait_leaves_the_started_job_alone(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    acts = json.dumps(script(("print", "hello"), ("wait_for_file", str(go))))
    with commands.terminal("start", "host.script", "--payload", acts, "--wait") as terminal:
        terminal.shows("\nhello")
        terminal.interrupt()
        assert terminal.exit_code() == 130

    job = host_jobs.find().jobs[0]
    assert job.status == "running"
    go.touch()
    assert host_jobs.wait(job.uuid, 20).status == "succeeded"
    eventually(lambda: host_jobs.find(status="running").jobs == [])


def test_a_limit_with_after_cannot_follow(
    commands: Commands, numbered: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LAST_WORDS_WITHIN", timedelta(0))

    assert commands("logs", 1, "-f", "--after", 3, "--limit", 3).exit_code == 2
    assert commands("logs", 1, "-f", "--limit", 2).out.splitlines() == ["line 2500", "Succeeded"]


def test_colours_of_a_job_reach_a_terminal_and_nothing_else_does(
    commands: Commands, host_jobs: JobRunner
) -> None:
    acts = script(("say", "info", "\x1b[31mred\x1b[2J\x1b]0;owned\x07 end"))
    host_jobs.run_inline("host.script", acts)
    piped = commands("logs", 1).out
    with commands.terminal("logs", 1) as terminal:
        assert terminal.exit_code() == 0

    assert "red\\x1b[2J\\x1b]0;owned\\x07 end\n" in piped
    assert "\x1b" not in piped
    assert "\x1b[31mred\\x1b[2J\\x1b]0;owned\\x07 end\x1b[0m\n" in terminal.seen


def test_following_outlasts_a_database_that_is_away_for_a_moment(
    commands: Commands, numbered: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LAST_WORDS_WITHIN", timedelta(0))
    monkeypatch.setattr(follow, "PAUSES", (0.01, 0.01))
    logs = commands.app.extensions["jobrunner"].logs
    read, asked = logs.after, []

    def flaky(job_id: int, seq: int, limit: int) -> list[LogLine]:
        asked.append(seq)
        if len(asked) in (2, 3):
            raise DatabaseAway("The database could not be reached.")
        return list(read(job_id, seq, limit))

    monkeypatch.setattr(logs, "after", flaky)
    lines = commands("logs", 1, "-f").out.splitlines()

    assert len(lines) == 2502
    assert lines.count("line 1000") == lines.count("line 1001") == 1


def test_following_gives_up_when_the_database_stays_away(
    commands: Commands, numbered: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "OUTAGE", 0.05)
    monkeypatch.setattr(follow, "PAUSES", (0.01, 0.01))
    logs = commands.app.extensions["jobrunner"].logs

    def away(*_: int) -> list[LogLine]:
        raise DatabaseAway("The database could not be reached.")

    monkeypatch.setattr(logs, "after", away)
    answer = commands("logs", 1, "-f")

    assert answer.exit_code == 69
    assert answer.err == "Error: The database could not be reached.\n"
