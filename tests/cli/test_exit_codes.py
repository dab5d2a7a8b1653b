"""Errors become one sentence and a documented exit code, in real processes."""

from __future__ import annotations

import json
from pathlib import Path

from flask_jobrunner import JobRunner
from tests import host_app
from tests.helpers.commands import Commands


def test_an_unreachable_database_exits_69(commands: Commands, tmp_path: Path) -> None:
    away = {host_app.DATABASE: f"sqlite:///{tmp_path / 'no' / 'such' / 'folder.db'}"}
    refused = {host_app.DATABASE: "postgresql+psycopg://u:hunter2@127.0.0.1:1/none"}
    for environ, *command in (
        (away, "list"),
        (away, "start", "host.nothing"),
        (refused, "show", "1"),
    ):
        answer = commands.process(*command, environ=environ)

        assert answer.exit_code == 69, (command, answer)
        assert answer.err.startswith("Error: The database could not be reached")
        assert len(answer.err.splitlines()) == 1
        assert "hunter2" not in answer.err
        assert answer.out == ""


def test_missing_tables_and_bad_settings_exit_78(commands: Commands, tmp_path: Path) -> None:
    empty = {host_app.DATABASE: f"sqlite:///{tmp_path / 'empty.db'}"}
    wrong = {host_app.CONFIG: json.dumps({"JOBRUNNER_LEASE": "soon"})}
    memory = {host_app.DATABASE: "sqlite://"}
    for environ, told in ((empty, "are missing"), (wrong, "JOBRUNNER_LEASE")):
        for command in (["list"], ["start", "host.nothing"]):
            answer = commands.process(*command, environ=environ)

            assert answer.exit_code == 78, (command, answer)
            assert told in answer.err
            assert len(answer.err.splitlines()) == 1
    assert commands.process("list", environ=memory).exit_code == 78


def test_debug_keeps_the_traceback(commands: Commands) -> None:
    plain = commands.process("show", "77")
    debug = commands.process("show", "77", environ={"FLASK_DEBUG": "1"})

    assert (plain.exit_code, plain.err) == (3, "Error: There is no job 77.\n")
    assert "Traceback" in debug.err
    assert "JobNotFound" in debug.err


def test_a_closed_pipe_is_no_traceback(commands: Commands, host_jobs: JobRunner) -> None:
    import subprocess

    host_jobs.run_inline("host.script", {"do": [["say", "info", "x" * 99]] * 3000})
    argv = " ".join(f"'{part}'" for part in commands.environment.command("jobs", "logs", "1"))
    done = subprocess.run(
        ["sh", "-c", f"{argv} | head -n 1"], capture_output=True, text=True, check=False
    )

    assert done.stdout.startswith("Started")
    assert done.stderr == ""


def test_an_application_that_cannot_be_found_is_a_usage_error(commands: Commands) -> None:
    import subprocess
    import sys

    argv = [sys.executable, "-m", "flask_jobrunner", "--app", "no_such_module", "jobs", "list"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "Could not import 'no_such_module'" in done.stderr
