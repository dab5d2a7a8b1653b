"""Clocks that jump by an hour while jobs run and sweepers look: no verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from flask_jobrunner import Job, JobRunner
from tests.helpers import requirements
from tests.helpers.clocks import Clock, make_clock
from tests.helpers.machines import Machine, Machines
from tests.helpers.supervising import PATIENCE, Supervisors, ended, in_status, ledger_of
from tests.helpers.waiting import eventually
from tests.hosts.busy import payload
from tests.servers import mariadb, postgresql

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HOUR = 3600
STEPS = (HOUR, -HOUR, 0)
SERVERS = {"postgresql": postgresql, "mariadb": mariadb}


@pytest.fixture
def clock() -> Clock:
    return make_clock()


@pytest.fixture
def database_of_the_clock(request: pytest.FixtureRequest, clock: Clock) -> Iterator[str]:
    """A database on a server of its own, whose clock is the test's."""
    kind = SERVERS[request.param]
    if kind.programs() is None:
        requirements.missing(request.param, kind.INSTALL)
    running = kind.start(environ=clock.of_servers)
    try:
        with running.fresh_database() as url:
            yield url
    finally:
        running.server.stop()


def begin(
    jobs: JobRunner, machine: Machine, pull: Supervisors, folder: Path, **environ: str
) -> Job:
    """A job that runs on the machine."""
    job = jobs.enqueue("busy", payload(folder, "l"), lock_key="k").job
    machine.work(pull, **environ)
    eventually(lambda: ledger_of(folder / "l"), timeout=PATIENCE)
    return in_status(jobs, job, "running")


def renewed(pull: Supervisors, times: int) -> None:
    """Wait for so many renewals of the only job's lease."""
    for _ in range(times):
        before = pull.columns("lease_until")
        eventually(lambda before=before: pull.columns("lease_until") != before, timeout=PATIENCE)  # type: ignore[misc]


def finish(jobs: JobRunner, pull: Supervisors, job: Job, folder: Path) -> None:
    """It ends as if nothing had been, and the only steps of its life are the usual ones."""
    (folder / "go-on").touch()
    (done,) = ended(jobs, job)
    assert (done.status, done.attempt) == ("succeeded", 1)
    assert [line.split()[:2] for line in ledger_of(folder / "l")] == [["start", "1"]]
    events = pull.runtime.database.tables.events
    rows = pull.runtime.database.rows(sa.select(events.c.to_status).order_by(events.c.id))
    statuses = [row["to_status"] for row in rows if row["to_status"]]
    assert statuses == ["queued", "running", "succeeded"]


def off_by(pull: Supervisors) -> float:
    """Seconds by which the database's clock differs from ours."""
    statement = sa.select(pull.runtime.database.now().label("now_us"))
    (row,) = pull.runtime.database.rows(statement)
    return float(row["now_us"] / 1_000_000 - time.time())


@pytest.mark.parametrize(
    ("database_of_the_clock"),
    [
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.faults]),
    ],
    indirect=True,
)
class TestTheDatabasesClock:
    """A server whose clock is set while jobs run."""

    @pytest.fixture
    def database_url(self, database_of_the_clock: str) -> str:
        return database_of_the_clock

    def test_a_step_of_an_hour_is_no_verdict(
        self,
        host_jobs: JobRunner,
        pull: Supervisors,
        machines: Machines,
        clock: Clock,
        tmp_path: Path,
    ) -> None:
        a, b = machines("a"), machines("b")
        job = begin(host_jobs, a, pull, tmp_path)
        b.work(pull, "--types", "none")
        for seconds in STEPS:
            clock.set(seconds)
            eventually(partial(_is_off_by, pull, seconds), timeout=PATIENCE)
            for machine in (a, b):
                assert json.loads(machine.run("sweep", "--json").out)["moved"] == {}
            renewed(pull, 4)
        finish(host_jobs, pull, job, tmp_path)


def python_is_off_by(clock: Clock) -> float:
    """Seconds by which the clock of a Python process on the other host differs from ours."""
    code = [sys.executable, "-c", "import time; print(time.time())"]
    told = subprocess.check_output(code, env={**os.environ, **clock.of_pythons})
    return float(told) - time.time()


def _is_off_by(pull: Supervisors, seconds: float) -> bool:
    return abs(off_by(pull) - seconds) < HOUR / 2


@pytest.mark.parametrize(
    "database_url",
    [
        "sqlite",
        pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.faults]),
        pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.faults]),
    ],
    indirect=True,
)
def test_a_step_of_the_job_s_host_is_no_verdict(
    host_jobs: JobRunner, pull: Supervisors, machines: Machines, clock: Clock, tmp_path: Path
) -> None:
    """On SQLite each process's own clock is the database's, so that two of them differ."""
    a, b = machines("a"), machines("b")
    job = begin(host_jobs, a, pull, tmp_path, **clock.of_pythons)
    b.work(pull, "--types", "none")
    for seconds in STEPS:
        clock.set(seconds)
        renewed(pull, 2)
        assert json.loads(b.run("sweep", "--json").out)["moved"] == {}
        renewed(pull, 2)
        assert abs(python_is_off_by(clock) - seconds) < HOUR / 2
    finish(host_jobs, pull, job, tmp_path)
