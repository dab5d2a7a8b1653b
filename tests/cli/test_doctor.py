"""`flask jobs doctor`: each finding, provoked."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.caller.prepare import prepare
from flask_jobrunner.cli.doctor import launching
from flask_jobrunner.repositories import health, place
from tests import host_app as host
from tests.helpers.commands import Answer, Commands
from tests.helpers.hosts import host_environment, running_host

SQLITE_IS_OLD = "rare fault of WAL mode"
SLOW = "a good part of JOBRUNNER_CLAIM_WINDOW"


def findings(answer: Answer, *, slow: bool = False) -> dict[str, list[dict[str, Any]]]:
    """The findings by level, without what this machine's SQLite version and its load add."""
    by_level: dict[str, list[dict[str, Any]]] = {"ok": [], "warning": [], "problem": []}
    for finding in answer.json()["findings"]:
        if SQLITE_IS_OLD not in finding["message"] and (slow or SLOW not in finding["message"]):
            by_level[finding["level"]].append(finding)
    return by_level


def only(found: list[dict[str, Any]], check: str) -> str:
    """The message of the one finding there is."""
    assert [finding["check"] for finding in found] == [check], found
    assert found[0]["advice"] or check in ("Tables", "Application", "Database", "Handlers")
    return str(found[0]["message"])


def test_a_sound_application_has_no_problem(commands: Commands) -> None:
    answer, as_json = commands.process("doctor"), commands.process("doctor", "--json")

    assert answer.exit_code == 0, answer
    assert "problem  " not in answer.out
    assert answer.out.splitlines()[-1].startswith("0 problems, ")
    assert as_json.exit_code == 0
    assert as_json.json()["ok"] is True
    checks = {finding["check"] for finding in findings(as_json)["ok"]}
    assert checks == {
        "Command", "Handlers", "Database", "Tables", "Clock", "Settings", "Revision", "Dashboard",
        "Spool", "Supervisors", "Waking",
    }  # fmt: skip
    assert findings(as_json)["warning"] == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["no-such-program-anywhere"], "cannot be started: No such file or directory"),
        (["false"], "exited 1 without an answer"),
        (["echo"], "exited 0 without an answer"),
        (["sh", "-c", "echo password=hunter2 >&2; exit 3"], "exited 3: password=********"),
    ],
)
def test_a_command_that_does_not_run(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, command: list[str], told: str
) -> None:
    settings = json.loads(os.environ[host.CONFIG]) | {"JOBRUNNER_COMMAND": command}
    answer = commands.process("doctor", "--json", environ={host.CONFIG: json.dumps(settings)})

    assert answer.exit_code == 1
    assert told in only(findings(answer)["problem"], "Command")


@pytest.mark.parametrize("host_config", [{"HOST_FACTORY": "raise"}])
def test_a_factory_that_breaks_in_a_jobs_process(commands: Commands) -> None:
    answer = commands("doctor", "--json")

    assert answer.exit_code == 1
    assert "the factory is broken on purpose" in only(findings(answer)["problem"], "Command")


def elsewhere(name: str, value: str) -> dict[str, str]:
    """Settings whose command runs with another environment than this process."""
    python = [sys.executable, "-m", "flask_jobrunner", "--app", host.APP]
    settings = json.loads(os.environ[host.CONFIG])
    settings["JOBRUNNER_COMMAND"] = ["env", f"{name}={value}", *python]
    return {host.CONFIG: json.dumps(settings)}


def test_a_jobs_process_that_uses_another_database(commands: Commands, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    answer = commands.process("doctor", "--json", environ=elsewhere(host.DATABASE, other))

    assert answer.exit_code == 1
    assert other in only(findings(answer)["problem"], "Same database")


def test_a_jobs_process_that_has_other_settings(commands: Commands) -> None:
    other = json.dumps({"JOBRUNNER_REVISION": "another"})
    answer = commands.process("doctor", "--json", environ=elsewhere(host.CONFIG, other))

    assert answer.exit_code == 1
    assert "_REVISION" in only(findings(answer)["problem"], "Same settings")


def test_a_handler_that_cannot_be_imported(commands: Commands) -> None:
    settings = json.loads(os.environ[host.CONFIG])
    settings["JOBRUNNER_HANDLERS"] = {"shop.gone": "no_such_module:run"}
    answer = commands.process("doctor", "--json", environ={host.CONFIG: json.dumps(settings)})

    assert answer.exit_code == 1
    assert "no_such_module:run, cannot be imported" in only(findings(answer)["problem"], "Handlers")


def test_an_application_that_cannot_be_built(commands: Commands) -> None:
    broken = commands.process("doctor", "--json", environ={host.DATABASE: "this is no address"})
    wrong = commands.process("doctor", environ={host.CONFIG: '{"JOBRUNNER_LEASE": -1}'})

    assert broken.exit_code == 1
    assert "It cannot be built: " in only(findings(broken)["problem"], "Application")
    assert wrong.exit_code == 78
    assert "JOBRUNNER_LEASE must be" in wrong.out


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_CLAIM_WINDOW": 0.1}])
def test_a_command_that_takes_long_or_for_ever(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = commands("doctor", "--json")
    monkeypatch.setattr(launching, "PROBE_SECONDS", 0.1)
    endless = commands("doctor", "--json")

    assert slow.exit_code == 0
    assert SLOW in only(findings(slow, slow=True)["warning"], "Command")
    assert endless.exit_code == 1
    assert "did not end within 100 ms" in only(findings(endless)["problem"], "Command")


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_APP": None}])
def test_an_application_that_nothing_says_how_to_build(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLASK_APP", raising=False)
    answer = commands("doctor", "--json")

    assert answer.exit_code == 78
    assert 'app.config["JOBRUNNER_APP"]' in findings(answer)["problem"][0]["message"]


def test_missing_and_wrong_tables(commands: Commands, tmp_path: Path) -> None:
    empty = {host.DATABASE: f"sqlite:///{tmp_path / 'empty.db'}"}
    missing = commands.process("doctor", "--json", environ=empty)
    with host.db.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE jobrun_supervisors")
        connection.exec_driver_sql("ALTER TABLE jobrun_files DROP COLUMN sha256")
    wrong = commands("doctor", "--json")

    assert missing.exit_code == 1
    assert "are missing" in only(findings(missing)["problem"], "Tables")
    assert wrong.exit_code == 1
    told = only(findings(wrong)["problem"], "Tables")
    assert "table jobrun_supervisors is missing" in told
    assert "column jobrun_files.sha256 is missing" in told


def test_a_database_that_is_away(commands: Commands) -> None:
    away = {host.DATABASE: "postgresql+psycopg://u:hunter2@127.0.0.1:1/none"}
    answer = commands.process("doctor", "--json", environ=away)

    assert answer.exit_code == 1
    assert "could not be reached" in only(findings(answer)["problem"], "Database")
    assert "hunter2" not in answer.out + answer.err


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///file:shared?mode=memory&uri=true"])
def test_a_database_in_memory(commands: Commands, url: str) -> None:
    answer = commands.process("doctor", "--json", environ={host.DATABASE: url})

    assert answer.exit_code == 78
    assert "no other process" in only(findings(answer)["problem"], "Database")


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_MODE": "record"}])
def test_a_mode_for_tests(commands: Commands) -> None:
    answer = commands("doctor", "--json")

    assert answer.exit_code == 0
    told = only(findings(answer)["warning"], "Mode")
    assert told == "JOBRUNNER_MODE is 'record': no job gets a process of its own."


@pytest.mark.parametrize("database_url", ["sqlite:///relative.db"])
def test_a_relative_path_is_in_the_instance_folder_and_no_fault(
    commands: Commands, tmp_path: Path
) -> None:
    answer = commands("doctor", "--json")

    assert answer.exit_code == 0
    assert f"{tmp_path}/instance/relative.db" in answer.out
    assert findings(answer)["warning"] == []


def test_a_file_that_refuses_wal_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Lock files instead of shared memory: what a network file system comes to.
    url = f"sqlite:///file:{tmp_path / 'app.db'}?vfs=unix-dotfile&uri=true"
    environment = host_environment(monkeypatch, url, tmp_path)
    with running_host() as app:
        answer = Commands(app, environment)("doctor", "--json")

    told = only(findings(answer)["warning"], "SQLite")
    assert told.startswith("WAL mode is refused here; the journal mode is delete.")


def test_a_file_on_a_network_file_system(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(place, "MOUNTS", mounts)
    answer = commands("doctor", "--json")

    assert answer.exit_code == 1
    assert "network file system (nfs4)" in only(findings(answer)["problem"], "SQLite")
    assert "network file system (nfs4)" in only(findings(answer)["warning"], "Spool")


@pytest.mark.mariadb
def test_a_driver_that_counts_changed_rows(
    mariadb_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = host_environment(monkeypatch, mariadb_url, tmp_path)
    with running_host() as app:
        fine = Commands(app, sound)("doctor", "--json")
    options = {"connect_args": {"client_flag": 0}}
    broken = host_environment(monkeypatch, mariadb_url, tmp_path, SQLALCHEMY_ENGINE_OPTIONS=options)
    with running_host() as app:
        answer = Commands(app, broken)("doctor", "--json")

    assert fine.exit_code == 0
    assert findings(fine)["problem"] == []
    assert answer.exit_code == 1
    assert "counts as nothing" in only(findings(answer)["problem"], "Row counts")


@pytest.mark.postgresql
def test_a_clock_that_differs(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = host_environment(monkeypatch, postgresql_url, tmp_path)
    with running_host() as app:
        commands = Commands(app, environment)
        fine = commands("doctor", "--json")
        monkeypatch.setattr(health, "time_ns", lambda: time.time_ns() + 90 * 10**9)
        behind = commands("doctor", "--json")

    assert fine.exit_code == 0
    assert findings(fine)["warning"] == []
    told = only(findings(behind)["warning"], "Clock")
    assert told == "The database's is 1 min 30 s behind this machine's."


def test_no_access_hook(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = commands.app.extensions["jobrunner"].hooks
    monkeypatch.setattr(hooks, "authorize", None)
    answer = commands("doctor", "--json")

    assert answer.exit_code == 0
    only(findings(answer)["warning"], "Access")
    assert "@jobs.authorize\ndef may(action, job):" in findings(answer)["warning"][0]["advice"]


def test_rules_of_the_hosts_own_below_the_prefix(commands: Commands, host_app: Flask) -> None:
    host_app.add_url_rule("/jobs/mine", "mine", lambda: "")
    answer = commands("doctor", "--json")

    assert answer.exit_code == 1
    assert "/jobs/mine" in only(findings(answer)["problem"], "Dashboard")


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_LEESE": 3, "JOBRUNNER_URL_PREFIX": None}])
def test_unknown_keys_and_late_changes(commands: Commands, host_app: Flask) -> None:
    host_app.config["JOBRUNNER_LEASE"] = 60
    answer = commands("doctor", "--json")
    messages = [finding["message"] for finding in findings(answer)["warning"]]

    assert answer.exit_code == 0
    assert len(messages) == 2
    assert messages[0].startswith("JOBRUNNER_LEESE is not a setting")
    assert messages[0].endswith("Did you mean JOBRUNNER_LEASE?")
    assert "changed after init_app" in messages[1]


def test_a_spool_folder_that_others_can_read_or_that_is_none(
    commands: Commands, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o755)
    open_to_all = commands("doctor", "--json")
    spool.rmdir()
    spool.write_text("")
    a_file = commands("doctor", "--json")

    assert "can be read by others" in only(findings(open_to_all)["warning"], "Spool")
    assert "is not a folder" in only(findings(a_file)["warning"], "Spool")


def test_overdue_jobs_and_waiting_reports_that_nobody_looks_at(
    commands: Commands, host_app: Flask, host_jobs: JobRunner, tmp_path: Path
) -> None:
    from tests.cli.reports import report_on

    runtime = host_app.extensions["jobrunner"]
    new = prepare(
        runtime, runtime.handlers.find("host.nothing"), None, credential_hash="0" * 64,
        claim_window=-300, lock_key=None, title=None, owner=None, reference=None, actor=None,
    )  # fmt: skip
    runtime.jobs.add(new)
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    (spool / f"{new.uuid}.1.json").write_bytes(report_on(new.uuid))
    before = findings(commands("doctor", "--json"))["warning"]
    commands("sweep")
    after = findings(commands("doctor", "--json"))["warning"]

    assert [finding["check"] for finding in before] == ["Sweeping", "Spool"]
    assert before[0]["message"] == "1 active job overdue, and nobody looks."
    assert before[1]["message"] == f"1 report waiting in {spool}."
    assert after == []
