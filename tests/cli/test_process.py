"""`run` and `settle`, which flask_jobrunner calls itself, and what they load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests import host_app
from tests.cli.reports import report_on
from tests.helpers.commands import Commands
from tests.host_acts import script

UUID = "00000000-0000-7000-8000-000000000000"


@pytest.mark.parametrize("command", ["run", "settle"])
def test_people_are_told_what_to_use_instead(commands: Commands, command: str) -> None:
    nothing = commands.process(command, UUID)
    with commands.terminal(command, UUID) as terminal:
        assert terminal.exit_code() == 2
    instead = {"run": "flask jobs start TYPE", "settle": "flask jobs sweep"}[command]

    assert nothing.exit_code == 2
    assert instead in nothing.err
    assert instead in terminal.seen
    assert "Traceback" not in nothing.err + terminal.seen


def test_one_that_stands_by_is_told_of_its_job_later(commands: Commands) -> None:
    assert commands.process("run-trusted").exit_code == 2
    assert commands.process("run-trusted", UUID, "--standby").exit_code == 2
    ended = commands.process("run-trusted", "--standby")

    assert (ended.exit_code, ended.out, ended.err) == (0, "", "")


@pytest.mark.parametrize("command", ["run", "settle"])
def test_garbage_is_refused_before_the_application_is_built(
    commands: Commands, command: str
) -> None:
    broken = {host_app.DATABASE: "this is no address"}
    for garbage in (b"x" * 300_000, b'\xff{"v": NaN}\n', b"[" * 5000 + b"\n"):
        answer = commands.process(command, UUID, given=garbage, environ=broken)

        assert answer.exit_code == 2, answer
        assert answer.out == ""
        assert "Traceback" not in answer.err
        assert "xxxxx" not in answer.err


def test_they_are_hidden_from_the_help(commands: Commands) -> None:
    shown = commands("--help").out

    assert "start " in shown
    assert "settle" not in shown
    assert "  run" not in shown


def test_settle_records_a_report_and_exits_0_only_then(
    commands: Commands, host_app: Flask, host_jobs: JobRunner
) -> None:
    from flask_jobrunner.caller.prepare import prepare

    runtime = host_app.extensions["jobrunner"]
    new = prepare(
        runtime, runtime.handlers.find("host.nothing"), None, credential_hash="0" * 64,
        claim_window=60, lock_key=None, title=None, owner=None, reference=None, actor=None,
    )  # fmt: skip
    runtime.jobs.add(new)
    for _ in ("now", "again"):
        assert commands.process("settle", new.uuid, given=report_on(new.uuid)).exit_code == 0
    job = host_jobs.get(new.uuid)

    assert job is not None
    assert (job.status, job.error_reason_code) == ("failed", "launch_failed")
    assert "exited 7" in (job.error_message or "")


def test_settle_exits_69_when_the_database_is_away(commands: Commands, tmp_path: Path) -> None:
    away = {"HOST_DATABASE_URL": f"sqlite:///{tmp_path / 'no' / 'such.db'}"}

    assert commands.process("settle", UUID, given=report_on(UUID), environ=away).exit_code == 69


def test_settle_refuses_the_report_of_another_job(commands: Commands) -> None:
    other = UUID.replace("7000", "7001")

    assert commands.process("settle", UUID, given=report_on(other)).exit_code == 2


def test_a_jobs_process_loads_nothing_that_it_does_not_need(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    modules = tmp_path / "modules"
    acts = script(("note_modules", str(modules)))
    job = host_jobs.start("host.script", acts).job

    assert host_jobs.wait(job.uuid, 20).status == "succeeded"
    loaded = set(modules.read_text().split())
    assert "flask_jobrunner.child.boot" in loaded
    unwanted = {
        "alembic", "flask_migrate", "werkzeug.debug", "flask_jobrunner.cli.doctor",
        "flask_jobrunner.cli.show", "flask_jobrunner.dashboard.views",
        "flask_jobrunner.dashboard.rendering",
    }  # fmt: skip
    assert loaded & unwanted == set()


def test_it_is_a_job_that_runs_and_no_other_plugin_is_loaded(tmp_path: Path) -> None:
    """A plugin of `flask` that breaks would break every job."""
    package = tmp_path / "broken_plugin-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[flask.commands]\nbroken = no_such_plugin:cli\n")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-m", "flask_jobrunner", "jobs", "run", UUID],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )

    assert done.returncode == 2
    assert "no_such_plugin" not in done.stderr
