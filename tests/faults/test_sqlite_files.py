"""What can happen to an SQLite file that other processes write to: stops, floods, replacement."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.model.errors import DatabaseAway, JobRunnerError, LockBusy, SchemaError
from flask_jobrunner.repositories import database as module
from tests import host_app as host
from tests.child.direct import a_row, line_of, start_child
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import look_at, processes_with
from tests.helpers.stores import make_tables, open_store, queue, row
from tests.helpers.waiting import eventually
from tests.host_acts import script

LOUD = 3
"""How many jobs print without an end beside one that is quiet."""
STOPS_INSIDE = """
import os, signal, sys
import sqlalchemy as sa
from tests.helpers.stores import open_store
store = open_store(sys.argv[1])
jobs = store.database.tables.jobs
def unit(connection):
    connection.execute(sa.update(jobs).values(title="from inside"))
    os.kill(os.getpid(), signal.SIGSTOP)
store.database.run(unit)
"""


@pytest.fixture
def host_config() -> dict[str, object]:
    return {
        "JOBRUNNER_HEARTBEAT": 1,
        "JOBRUNNER_LEASE": 30,
        "JOBRUNNER_HANDLERS": {"faults.flood": "tests.faults.acts:flood"},
    }


@pytest.mark.parametrize(
    ("sent", "title"), [(signal.SIGCONT, "from inside"), (signal.SIGKILL, "before")]
)
def test_a_writer_that_stands_still_holds_the_file_until_it_is_gone(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, title: str
) -> None:
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.2)
    make_tables(sqlite_url)
    store = open_store(sqlite_url)
    job = queue(store, title="before")
    writer = subprocess.Popen([sys.executable, "-c", STOPS_INSIDE, sqlite_url])
    try:
        eventually(partial(_stands_still, writer.pid), timeout=60)
        with pytest.raises(LockBusy):
            queue(store)
        assert row(store, job.id)["title"] == "before", "readers go on"
        writer.send_signal(sent)
        assert writer.wait(60) == (0 if sent == signal.SIGCONT else -sent)
    finally:
        writer.kill()
        writer.wait()
    assert queue(store).status == "queued"
    assert row(store, job.id)["title"] == title


def _stands_still(pid: int) -> bool:
    seen = look_at(pid)
    return seen is not None and seen.state == "T"


def test_floods_do_not_starve_a_renewal(host_jobs: JobRunner, tmp_path: Path) -> None:
    go, over = tmp_path / "go", tmp_path / "over"
    quiet = host_jobs.start("host.script", script(("wait_for_file", str(over)))).job
    payload = {"go": str(go), "over": str(over)}
    loud = [host_jobs.start("faults.flood", payload).job.uuid for _ in range(LOUD)]
    go.touch()
    eventually(lambda: all(host_jobs.status(uuid).last_log_seq > 1000 for uuid in loud), timeout=90)
    renewed = set()

    def often_enough() -> bool:
        seen = host_jobs.get_many([quiet.uuid, *loud])
        assert [job.uuid for job in seen.values() if job.is_stale] == []
        renewed.add(seen[quiet.uuid].heartbeat_at)
        return len(renewed) > 4

    try:
        eventually(often_enough, timeout=120)
    finally:
        over.touch()
    ended = [host_jobs.wait(uuid, 90) for uuid in (quiet.uuid, *loud)]
    assert [job.status for job in ended] == ["succeeded"] * (1 + LOUD)


def test_a_file_that_cannot_be_written_starts_nothing(
    host_app: Flask, host_environment: HostEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = host_environment.environ[host.DATABASE].removeprefix("sqlite:///")
    monkeypatch.setenv(host.DATABASE, f"sqlite:///file:{path}?mode=ro&uri=true")
    with _another_host() as jobs:
        for call in (jobs.start, jobs.enqueue):
            with pytest.raises((JobRunnerError, sa.exc.OperationalError), match=r"read.?only"):
                call("host.nothing", lock_key="k")
        assert jobs.find().jobs == []
    assert processes_with(host_environment.mark) == []


@contextmanager
def _another_host() -> Iterator[JobRunner]:
    """The application as another process would build it now."""
    app = host.create_app()
    with app.app_context():
        yield host.jobs
        host.db.session.remove()
        host.db.engine.dispose()
        app.extensions["jobrunner"].database.engine.dispose()


def test_a_file_that_was_replaced_stops_its_job(
    host_app: Flask, host_environment: HostEnvironment, tmp_path: Path
) -> None:
    acts = script(("wait_for_cancel",), ("return", 1), ledger=tmp_path / "ledger")
    envelope, _ = a_row(host_app, "host.script", acts)
    child = start_child(host_environment, envelope.job_uuid)
    child.send(line_of(envelope))
    eventually((tmp_path / "ledger").exists, timeout=60)
    host_app.extensions["jobrunner"].database.engine.dispose()

    path = tmp_path / "app.sqlite"
    make_tables(f"sqlite:///{tmp_path / 'other.sqlite'}")
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    os.replace(tmp_path / "other.sqlite", path)  # noqa: PTH105  # one step, as a restore does it

    assert child.end()[0] == 5
    store = open_store(f"sqlite:///{path}")
    assert store.database.rows(sa.select(store.database.tables.jobs)) == []


def test_a_file_that_was_deleted_is_a_database_that_is_away(sqlite_url: str) -> None:
    """For whoever keeps a connection, as a job does; no empty file is made in its place."""
    make_tables(sqlite_url)
    store = open_store(sqlite_url, keep=True)
    queue(store)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    aside = path.rename(path.with_name("aside"))
    with pytest.raises(DatabaseAway, match="not there any more"):
        queue(store)
    assert not path.exists()
    aside.rename(path)
    assert queue(store).status == "queued"
    store.database.engine.dispose()


def test_without_its_file_a_start_refuses(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    path = host_environment.environ[host.DATABASE].removeprefix("sqlite:///")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)

    with pytest.raises(SchemaError, match="missing"):
        host.jobs.start("host.nothing")
    assert processes_with(host_environment.mark) == []
