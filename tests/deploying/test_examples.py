"""The examples are what they are for: each is read by the program that will read it."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import pytest

from flask_jobrunner.cli import jobs as commands
from flask_jobrunner.config import Config
from flask_jobrunner.model.statuses import ExitCode
from tests.helpers.hosts import HostEnvironment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "deploy"
DOCUMENT = (ROOT / "docs" / "deploying.md").read_text("utf-8")
UNITS = sorted((EXAMPLES / "systemd").iterdir())
FILES = sorted(path for path in EXAMPLES.rglob("*") if path.is_file())
DEFAULTS = Config()
SERVED = "tests.deploying.served:create_app()"


def directives(name: str) -> dict[str, list[str]]:
    """The directives of a unit, and what each is set to."""
    found = defaultdict(list)
    for line in (EXAMPLES / "systemd" / name).read_text("utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[key].append(value)
    return found


def seconds(text: str) -> float:
    """A time such as `45s`, or `45` as systemd writes it."""
    return float(text.removesuffix("s"))


# -- systemd ----------------------------------------------------------------------------------


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not here; the directives are tested below")
    for unit in UNITS:
        # It looks whether the programs are there.
        text = re.sub(r"/srv/shop/venv/bin/\w+", sys.executable, unit.read_text("utf-8"))
        (tmp_path / unit.name).write_text(text.replace("/srv/shop", str(tmp_path)), "utf-8")
    done = subprocess.run(
        [verify, "verify", "--man=no", *(str(tmp_path / unit.name) for unit in UNITS)],
        capture_output=True,
        text=True,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        check=False,
    )
    # Whatever it says of other units of this machine is not about these.
    assert [line for line in done.stderr.splitlines() if "shop-" in line] == []


def test_a_web_unit_leaves_its_jobs_alone() -> None:
    web = directives("shop-web.service")

    assert web["KillMode"] == ["process"]
    assert (web["Type"], web["NotifyAccess"]) == (["notify"], ["main"])
    assert web["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert web["OOMPolicy"] == ["continue"]
    assert seconds(web["TimeoutStopSec"][0]) > gunicorn_settings()["graceful_timeout"]


def test_a_supervisors_unit_gives_it_the_time_it_takes() -> None:
    unit = directives("shop-jobs.service")

    assert unit["KillMode"] == ["mixed"]
    assert (unit["Type"], unit["NotifyAccess"]) == (["notify"], ["main"])
    # It may take some more seconds to write down the last ends.
    assert seconds(unit["TimeoutStopSec"][0]) >= DEFAULTS.drain_timeout + 10
    assert seconds(unit["WatchdogSec"][0]) >= 30
    assert unit["RestartPreventExitStatus"] == [str(int(ExitCode.CONFIGURATION))]
    assert "ExecReload" not in unit  # HUP ends a supervisor


def test_a_timer_enqueues_and_waits() -> None:
    unit = directives("shop-nightly.service")

    assert (unit["Type"], unit["TimeoutStartSec"]) == (["oneshot"], ["infinity"])
    assert unit["ExecStart"][0].endswith(" --wait")
    assert directives("shop-nightly.timer")["OnCalendar"]


# -- containers ---------------------------------------------------------------------------------


def test_the_image_starts_no_shell() -> None:
    text = (EXAMPLES / "container" / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line[:1] not in {"", "#"}]
    instructions = [line.split(maxsplit=1) for line in lines]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "STOPSIGNAL", "CMD"}

    assert {name for name, _ in instructions} == known
    assert instructions[0][0] == "FROM"
    assert json.loads(dict(instructions)["CMD"]) == ["flask", "jobs", "work"]
    assert dict(instructions)["STOPSIGNAL"] == "SIGTERM"
    assert dict(instructions)["USER"] != "root"


def test_the_services_reap_stop_and_have_names() -> None:
    text = (EXAMPLES / "container" / "compose.yaml").read_text("utf-8")
    common, _, services = text.partition("\nservices:\n")
    web, jobs = re.split(r"^  \w+:\n", services, flags=re.MULTILINE)[1:]

    assert re.search(r"^  init: true$", common, re.MULTILINE)
    names = set()
    for service in (web, jobs):
        assert "<<: *shop" in service
        argv = re.search(r"^    command: (\[.*\])$", service, re.MULTILINE)
        assert argv is not None
        assert json.loads(argv[1])[0] in {"gunicorn", "flask"}
        names |= set(re.findall(r"FLASK_JOBRUNNER_INSTANCE: (\w+)$", service, re.MULTILINE))
    assert names == {"web", "jobs"}
    grace = re.findall(r"stop_grace_period: (\d+)s", services)
    assert int(grace[0]) > gunicorn_settings()["graceful_timeout"]
    assert int(grace[1]) >= DEFAULTS.drain_timeout + 10


# -- servers ------------------------------------------------------------------------------------


def gunicorn_settings() -> dict[str, int]:
    """The numbers in gunicorn's configuration."""
    found: dict[str, Any] = {}
    exec((EXAMPLES / "gunicorn.conf.py").read_text("utf-8"), found)
    return {name: value for name, value in found.items() if isinstance(value, int)}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_gunicorn_takes_its_configuration(host_environment: HostEnvironment) -> None:
    program = [sys.executable, "-m", "gunicorn", "--check-config", "--print-config"]
    done = subprocess.run(
        [*program, "--config", str(EXAMPLES / "gunicorn.conf.py"), SERVED],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = dict(re.findall(r"^(\w+) += (.+)$", done.stdout, re.MULTILINE))

    for name, value in gunicorn_settings().items():
        assert shown[name] == str(value), name
    assert gunicorn_settings()["timeout"] > DEFAULTS.ack_timeout


def test_uwsgi_has_threads_and_an_environment() -> None:
    parser = configparser.ConfigParser()
    parser.read(EXAMPLES / "uwsgi.ini", encoding="utf-8")
    settings = parser["uwsgi"]

    assert settings.getboolean("enable-threads")
    assert settings.getboolean("master")
    assert settings.getboolean("die-on-term")
    assert settings["virtualenv"]
    assert int(settings["harakiri"]) > DEFAULTS.ack_timeout


# -- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*FILES, ROOT / "docs" / "deploying.md"], ids=lambda p: p.name)
def test_commands_that_are_named_exist(path: Path) -> None:
    text = re.sub(r'", "|\["|"\]', " ", path.read_text("utf-8"))
    context = click.Context(commands)
    for name, rest in re.findall(r"flask +jobs +([\w-]+)([^`\n]*)", text):
        command = commands.get_command(context, name)
        assert command is not None, name
        options = {option for each in command.params for option in each.opts}
        assert set(re.findall(r"(?<= )--[\w-]+", rest)) <= options, rest


def test_every_example_is_explained() -> None:
    missing = [
        path for path in FILES if f"examples/deploy/{path.relative_to(EXAMPLES)}" not in DOCUMENT
    ]

    assert missing == []


def test_settings_that_are_named_exist() -> None:
    text = DOCUMENT + "".join(path.read_text("utf-8") for path in FILES)

    for name in re.findall(r"JOBRUNNER_([A-Z_]+)", text):
        assert hasattr(DEFAULTS, name.lower()), name
