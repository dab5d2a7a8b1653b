"""The credential of a job is found nowhere while it runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.caller import requeue, start
from flask_jobrunner.protocol import envelope
from tests.helpers.commands import Commands
from tests.helpers.processes import all_processes
from tests.host_acts import script
from tests.host_app import db

pytestmark = pytest.mark.slow


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The credentials that this process makes."""
    made: list[str] = []
    make = envelope.new_credential

    def spy() -> str:
        made.append(make())
        return made[-1]

    for module in (envelope, start, requeue):
        monkeypatch.setattr(module, "new_credential", spy)
    return made


def everything(
    app: Flask, commands: Commands, uuid: str, folder: Path, log: pytest.LogCaptureFixture
) -> Iterator[tuple[str, bytes]]:
    """Every place where a secret could lie, by name."""
    yield from _processes()
    yield from _database()
    yield from _files(folder)
    yield "the application's own log", log.text.encode()
    client = app.test_client()
    for page in ("", uuid, f"{uuid}/_live", f"{uuid}/log", f"{uuid}/cancel", "_list"):
        response = client.get(f"/jobs/{page}")
        yield (
            f"page {page} ({response.status_code})",
            response.data + str(response.headers).encode(),
        )
    for command in (["show", uuid], ["show", uuid, "--json"], ["logs", uuid], ["list", "--json"]):
        answer = commands(*command)
        yield f"command {command}", (answer.out + answer.err).encode()


def _processes() -> Iterator[tuple[str, bytes]]:
    for seen in all_processes():
        for name in ("cmdline", "environ"):
            try:
                yield f"{name} of {seen.command}", Path(f"/proc/{seen.pid}/{name}").read_bytes()
            except OSError:
                continue


def _database() -> Iterator[tuple[str, bytes]]:
    with db.engine.connect() as connection:
        metadata = db.MetaData()
        metadata.reflect(connection)
        assert "jobrun_jobs" in metadata.tables
        for table in metadata.sorted_tables:
            rows = connection.execute(table.select()).all()
            yield f"table {table.name}", repr(rows).encode()


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield f"file {path}", path.read_bytes()


def test_the_credential_is_nowhere(
    host_app: Flask,
    host_jobs: JobRunner,
    commands: Commands,
    credentials: list[str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    go = tmp_path / "go"
    acts = script(("program", "env"), ("print", "running"), ("wait_for_file", str(go)))
    result = host_jobs.start("host.script", acts, lock_key="k")
    uuid = result.job.uuid
    while_running = list(everything(host_app, commands, uuid, tmp_path, caplog))
    status = host_jobs.get(uuid)
    go.touch()
    assert host_jobs.wait(uuid, 30).status == "succeeded"
    afterwards = list(everything(host_app, commands, uuid, tmp_path, caplog))

    assert status is not None
    assert status.status == "running"
    (credential,) = credentials
    needles = [credential.encode(), bytes.fromhex(credential), credential.upper().encode()]
    found = [
        name for name, data in [*while_running, *afterwards] if any(n in data for n in needles)
    ]
    assert found == []
    names = " ".join(name for name, _ in while_running)
    for place in (
        "environ of",
        "cmdline of",
        "table jobrun_jobs",
        "table jobrun_attempts",
        "page ",
    ):
        assert place in names
    assert credential not in str(result.to_dict()) + repr(result)


def test_nor_where_a_process_waits_for_its_claim(
    host_app: Flask,
    host_jobs: JobRunner,
    credentials: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import json

    from tests import host_app as host

    settings = json.loads(os.environ[host.CONFIG]) | {"HOST_FACTORY": "hang"}
    monkeypatch.setenv(host.CONFIG, json.dumps(settings))
    result = host_jobs.start("host.nothing", wait=0.5)
    (credential,) = credentials
    places = [*_processes(), *_database(), *_files(tmp_path)]

    assert result.status == "launching"
    assert [name for name, data in places if credential.encode() in data] == []
