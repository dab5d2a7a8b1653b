"""`flask jobs work`: what it is told, what it needs, and what its processes inherit."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests import host_app as host
from tests.helpers.commands import Commands
from tests.helpers.supervising import QUICK, Supervisors, ended, supervisors
from tests.helpers.waiting import eventually
from tests.host_acts import script

TELLS_ITS_ROLE = """
import flask_jobrunner, tests.host_app as host
real = host.create_app
def create_app():
    open({path!r}, "w").write(flask_jobrunner.process_role())
    return real()
host.create_app = create_app
"""
HOLDS_A_FILE = """
import os
os.set_inheritable(os.open({path!r}, os.O_RDONLY), True)
"""


@pytest.fixture
def host_config(tmp_path: Path) -> dict[str, object]:
    return {**QUICK, "HOST_FACTORY": f"raise while {tmp_path / 'broken'}", "JOBRUNNER_SLOTS": 3}


@pytest.fixture
def pull(host_app: Flask, commands: Commands, tmp_path: Path) -> Iterator[Supervisors]:
    with supervisors(host_app, commands.environment, tmp_path) as found:
        yield found


def changed(**config: object) -> dict[str, str]:
    """The environment of a host with other settings."""
    return {host.CONFIG: json.dumps(json.loads(os.environ[host.CONFIG]) | config)}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--slots", "0"),
        ("--slots", "many"),
        ("--standby", "-1"),
        ("--drain-timeout", "-1"),
        ("--drain-timeout", "inf"),
        ("--drain-timeout", "nan"),
        ("--types", ""),
        ("--unknown",),
        ("extra",),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(commands: Commands, arguments: tuple[str, ...]) -> None:
    assert commands("work", *arguments).exit_code == 2


def test_without_a_database_it_does_not_begin(commands: Commands) -> None:
    away = {host.DATABASE: "mysql+pymysql://root@127.0.0.1:1/none"}
    assert commands.process("work", environ=away).exit_code == 69
    missing = commands.process("work", environ={host.DATABASE: "sqlite:////nowhere/at/all.sqlite"})
    assert missing.exit_code == 69


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({host.DATABASE: "sqlite://"}, "in memory"),
        ({"JOBRUNNER_COMMAND": ["/nowhere/python"]}, "/nowhere/python"),
    ],
    ids=["memory", "command"],
)
def test_a_configuration_that_cannot_work_is_refused(
    commands: Commands, environ: dict[str, str], told: str
) -> None:
    given = environ if host.DATABASE in environ else changed(**environ)
    answer = commands.process("work", environ=given)

    assert answer.exit_code in (1, 78)
    assert told in answer.err


def test_missing_tables_are_told(commands: Commands, tmp_path: Path) -> None:
    empty = {host.DATABASE: f"sqlite:///{tmp_path / 'empty.sqlite'}"}
    answer = commands.process("work", environ=empty)

    assert answer.exit_code == 78
    assert "flask db upgrade" in answer.err


def test_on_windows_it_says_what_works_there(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    answer = commands("work")

    assert answer.exit_code == 78
    assert "On Windows, jobs can be enqueued" in answer.err


def test_the_settings_are_its_defaults(pull: Supervisors) -> None:
    working = pull.work()
    assert working.told("ready")[0]["slots"] == 3
    assert "jobs of every type, 3 slots" in working.told("ready")[0]["message"]


def test_a_burst_that_can_start_no_process_ends(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    (tmp_path / "broken").touch()
    made = host_jobs.enqueue("host.nothing").job
    working = pull.work("--burst", ready=False)

    assert working.exit_code() == 1
    assert len(working.told("backing_off")) == 3
    assert pull.columns("status", "dispatch_until") == [("queued", None)]
    assert made.status == "queued"


def test_a_burst_runs_what_its_jobs_add(host_jobs: JobRunner, pull: Supervisors) -> None:
    made = [host_jobs.enqueue("host.nothing").job for _ in range(4)]
    working = pull.work("--burst", "--slots", 2, ready=False)

    assert working.exit_code() == 0
    assert {job.status for job in ended(host_jobs, *made)} == {"succeeded"}
    assert working.told("stopped")[0]["exit_code"] == 0


def test_the_factory_knows_that_it_builds_a_supervisor(pull: Supervisors, tmp_path: Path) -> None:
    role = tmp_path / "role"
    working = pull.work_patched(TELLS_ITS_ROLE.format(path=str(role)), "--burst", ready=False)

    assert working.exit_code() == 0
    assert role.read_text() == "supervisor"


def test_jobs_inherit_nothing_of_the_supervisor(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    secret = tmp_path / "inheritable"
    secret.touch()
    go_on = tmp_path / "go-on"
    acts = script(("wait_for_file", str(go_on)), ledger=tmp_path / "l")
    host_jobs.enqueue("host.script", acts)
    manager = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(manager))
        listening.settimeout(60)
        environ = {"NOTIFY_SOCKET": str(manager), "WATCHDOG_USEC": "2000000"}
        working = pull.work_patched(HOLDS_A_FILE.format(path=str(secret)), **environ)
        heard = [listening.recv(100)]
        eventually((tmp_path / "l").exists, timeout=90)
        (child,) = working.children()
        links = [str(one.readlink()) for one in Path(f"/proc/{child}/fd").iterdir()]
        names = [part.partition(b"=")[0] for part in _environ(child)]
        go_on.touch()
        working.send(signal.SIGTERM)
        while heard[-1] != b"STOPPING=1":
            heard.append(listening.recv(100))

    assert working.exit_code() == 0
    assert str(secret) not in links
    assert not any("work-0.log" in link for link in links)
    assert {b"NOTIFY_SOCKET", b"WATCHDOG_USEC", b"WATCHDOG_PID"}.isdisjoint(names)
    assert heard[0] == b"READY=1"
    assert b"WATCHDOG=1" in heard
    assert b"STATUS=working, 1 of 3 slots used" in heard


def _environ(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_its_children_say_what_to_use_instead(commands: Commands, host_jobs: JobRunner) -> None:
    made = host_jobs.enqueue("host.nothing").job
    answer = commands.process("run-trusted", made.uuid)

    assert answer.exit_code == 2
    assert "flask jobs work" in answer.err
