"""`python -m flask_jobrunner`: the application's commands without `flask` itself."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from flask.cli import ScriptInfo

from flask_jobrunner.__main__ import main
from flask_jobrunner.cli import jobs
from tests.helpers.commands import Commands


@click.command()
@click.pass_obj
def tell(info: ScriptInfo) -> None:
    """Say what a command is given."""
    click.echo(f"{info.app_import_path} {os.environ.get('FLASK_DEBUG')}")
    click.echo(os.environ["FLASK_RUN_FROM_CLI"])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.commands, "tell", tell)
    for name in ("FLASK_APP", "FLASK_DEBUG", "FLASK_RUN_FROM_CLI"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str) -> Result:
    # The runner puts these back, whatever the command sets.
    environ = {"FLASK_DEBUG": None, "FLASK_RUN_FROM_CLI": None}
    return CliRunner(env=environ).invoke(main, list(arguments))


@pytest.mark.usefixtures("told")
def test_the_application_comes_from_the_option_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("-A", "shop:app", "tell").output == "shop:app None\ntrue\n"
    assert run("--app", "shop", "--debug", "tell").output == "shop 1\ntrue\n"
    assert run("--app", "shop", "--no-debug", "tell").output == "shop 0\ntrue\n"
    monkeypatch.setenv("FLASK_APP", "other")
    assert run("tell").output == "other None\ntrue\n"
    assert run("--app", "shop", "tell").output == "shop None\ntrue\n"


@pytest.mark.usefixtures("told")
def test_an_environment_file_that_is_missing_is_a_usage_error(tmp_path: Path) -> None:
    assert run("--env-file", str(tmp_path / "none"), "tell").exit_code == 2


def test_it_needs_no_dotenv(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FLASK_APP=nobody\n")
    done = subprocess.run(
        commands.environment.command("jobs", "list"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0
    assert "No jobs." in done.stderr


def test_flask_finds_the_commands_before_it_loads_an_application() -> None:
    found = [point for point in entry_points(group="flask.commands") if point.name == "jobs"]
    if not found:
        pytest.skip("the package is not installed here")
    done = subprocess.run(
        [sys.executable, "-m", "flask", "--app", "no_such_app", "jobs", "start", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert found[0].load() is jobs
    assert done.returncode == 0
    assert "--lock-key" in done.stdout
