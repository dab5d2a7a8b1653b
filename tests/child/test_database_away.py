"""The database goes away under a running job, and comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import text

from flask_jobrunner import Job, JobRunner
from tests.child.direct import Child, a_row, line_of, start_child
from tests.helpers.hosts import HostEnvironment
from tests.helpers.proxy import Proxy, proxy_to
from tests.helpers.waiting import eventually, stays
from tests.host_acts import script

LEASE = 1.5


@pytest.fixture(
    params=[
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def database_url(request: pytest.FixtureRequest) -> str:
    """The databases that a network can take away."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_HEARTBEAT": 0.3, "JOBRUNNER_LEASE": LEASE}


@pytest.fixture
def proxy(database_url: str) -> Iterator[Proxy]:
    with proxy_to(database_url) as made:
        yield made


@pytest.fixture
def start(
    host_app: Flask, host_environment: HostEnvironment, proxy: Proxy, database_url: str
) -> Start:
    return Start(host_app, host_environment, {"HOST_DATABASE_URL": proxy.url(database_url)})


class Start:
    """Starts a child whose database is behind the proxy."""

    def __init__(self, app: Flask, environment: HostEnvironment, changes: dict[str, str]) -> None:
        self._app, self._environment, self._changes = app, environment, changes

    def __call__(self, *acts: tuple[object, ...]) -> tuple[Child, str]:
        envelope, _ = a_row(self._app, "host.script", script(*acts))
        child = start_child(self._environment, envelope.job_uuid, changes=self._changes)
        child.send(line_of(envelope))
        return child, envelope.job_uuid


def logged(jobs: JobRunner, uuid: str, message: str) -> None:
    eventually(
        lambda: message in [line.message for line in jobs.status(uuid).logs],
        timeout=30,
        message=lambda: f"{jobs.status(uuid)}",
    )


def check_numbers(app: Flask, job: Job) -> None:
    with app.extensions["jobrunner"].database.engine.connect() as connection:
        count, high = connection.execute(
            text("SELECT count(*), max(seq) FROM jobrun_logs WHERE job_id = :id"), {"id": job.id}
        ).one()
    assert count == high


@pytest.mark.parametrize("in_a_commit", [False, True])
def test_an_outage_longer_than_the_lease_loses_nothing(
    host_app: Flask,
    host_jobs: JobRunner,
    start: Start,
    proxy: Proxy,
    tmp_path: Path,
    in_a_commit: bool,
) -> None:
    go = tmp_path / "go"
    acts: list[tuple[object, ...]] = [("print", "before")]
    for number in range(100):
        acts += [("print", f"line {number}"), ("pause", 0.04)]
    child, uuid = start(*acts, ("wait_for_file", str(go)), ("return", 1))
    logged(host_jobs, uuid, "before")
    if in_a_commit:
        proxy.cut_at_the_commit_after(b"lease_until")
        eventually(lambda: proxy.is_cut)
    else:
        proxy.cut()
    stays(lambda: child.process.poll() is None, seconds=2 * LEASE)
    job = host_jobs.get(uuid)
    assert job is not None
    assert job.is_stale
    proxy.restore()
    go.touch()
    assert child.end()[0] == 0
    status = host_jobs.status(uuid, after_seq=0, limit=1000)
    assert status.job is not None
    assert status.job.status == "succeeded"
    lines = [line.message for line in status.logs if line.stream == "stdout"]
    assert lines == ["before", *(f"line {number}" for number in range(100))]
    check_numbers(host_app, status.job)


@pytest.mark.parametrize("in_a_commit", [False, True])
def test_the_end_waits_for_the_database(
    host_app: Flask,
    host_jobs: JobRunner,
    start: Start,
    proxy: Proxy,
    tmp_path: Path,
    in_a_commit: bool,
) -> None:
    go = tmp_path / "go"
    child, uuid = start(("print", "ready"), ("wait_for_file", str(go)), ("return", [1, 2]))
    logged(host_jobs, uuid, "ready")
    if in_a_commit:
        proxy.cut_at_the_commit_after(b"finished_at")
        go.touch()
        eventually(lambda: host_jobs.wait(uuid, 0).is_terminal, timeout=60)
    else:
        proxy.cut()
        go.touch()
    stays(lambda: child.process.poll() is None, seconds=1.0)
    proxy.restore()
    assert child.end()[0] == 0
    status = host_jobs.status(uuid)
    assert status.job is not None
    assert (status.job.status, status.result) == ("succeeded", [1, 2])
    assert [line.message for line in status.logs].count("Succeeded") == 1
    check_numbers(host_app, status.job)


def test_a_question_in_the_middle_raises_nothing(
    host_jobs: JobRunner, start: Start, proxy: Proxy, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    child, uuid = start(
        ("print", "ready"),
        ("wait_for_file", str(asked)),
        ("raise_if_cancelled",),
        ("say", "info", "not stopped"),
        ("return", 1),
    )
    logged(host_jobs, uuid, "ready")
    proxy.cut()
    began = time.monotonic()
    asked.touch()
    stays(lambda: child.process.poll() is None, seconds=1.0)
    proxy.restore()
    assert child.end()[0] == 0
    assert time.monotonic() - began < 30
    assert "not stopped" in [line.message for line in host_jobs.status(uuid).logs]


def test_ownership_that_cannot_be_renewed_is_told_only_by_check(
    host_jobs: JobRunner, start: Start, proxy: Proxy, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    child, uuid = start(("print", "ready"), ("wait_for_file", str(go)), ("check",), ("return", 1))
    logged(host_jobs, uuid, "ready")
    proxy.cut()
    stays(lambda: True, seconds=LEASE)
    go.touch()
    # The handler has failed by now; its end is written once the database is back.
    stays(lambda: child.process.poll() is None, seconds=0.5)
    proxy.restore()
    assert child.end()[0] == 1
    job = host_jobs.get(uuid)
    assert job is not None
    assert (job.status, job.error_reason_code) == ("failed", "handler_raised")
    assert (job.error_class or "").endswith("OwnershipLost")
