"""Push jobs below gunicorn: its reloads, its timeouts, its recycling and its end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.deploying.flight import Flight
from tests.deploying.servers import (
    PATIENCE,
    Gunicorn,
    can_be_bound,
    held_by,
    listening_inode,
    shims_and_children,
)
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import assert_no_process_left
from tests.helpers.supervising import ledger_of
from tests.helpers.waiting import eventually

JOBS = 5


@pytest.fixture
def flight(host_app: Flask, host_jobs: JobRunner, gunicorn: Gunicorn, tmp_path: Path) -> Flight:
    """Starts jobs in the server and lets them finish."""
    return Flight(host_app, host_jobs, gunicorn, tmp_path)


SERVERS = [
    ("sqlite", "sync", False),
    ("sqlite", "gthread", False),
    ("sqlite", "gevent", False),
    pytest.param("postgresql", "gthread", True, marks=pytest.mark.postgresql),
    pytest.param("mariadb", "gevent", True, marks=pytest.mark.mariadb),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database_url", "worker_class", "preload"), SERVERS, indirect=["database_url"]
)
def test_jobs_outlive_whatever_happens_to_their_server(
    gunicorn: Gunicorn,
    flight: Flight,
    host_environment: HostEnvironment,
    worker_class: str,
    *,
    preload: bool,
) -> None:
    web, mark = gunicorn, host_environment.mark
    web.configure(worker_class, preload_app=preload)
    web.serve()
    names = [f"long {number}" for number in range(JOBS)]
    flying = iter([(flight.take_off(name), name) for name in names])

    def all_is_well() -> None:
        flight.land(*next(flying))
        eventually(lambda: not web.zombies(), message=lambda: f"{web.zombies()}")

    def can_start(name: str) -> None:
        flight.land(flight.take_off(name), name)
        all_is_well()

    shims, children = shims_and_children(mark)
    assert (len(shims), len(children)) == (JOBS, JOBS)
    assert not [pid for pid in shims + children if listening_inode(web.port) in held_by(pid)]

    # A deploy: new workers, while the old one ends in order. And settings for what comes next.
    web.configure(worker_class, preload_app=preload, timeout=6)
    web.reload()
    all_is_well()

    # A request that hangs: the arbiter ends the worker with all its threads.
    old = web.worker()
    web.hang()
    web.changes_worker(old)
    assert "WORKER TIMEOUT" in web.log
    all_is_well()

    # Recycling.
    web.configure(worker_class, preload_app=preload, max_requests=12)
    web.reload()
    web.changes_worker(web.worker())
    assert "Autorestarting worker" in web.log
    can_start("in a new worker")

    # A restart: the port is free for the new server, whatever of the old one's jobs still runs.
    assert web.stop() == 0
    assert can_be_bound(web.port)
    flight.land(*next(flying))
    web.serve()
    can_start("after a restart")

    assert web.stop() == 0
    assert {(job.status, job.attempt) for job in flight.jobs.find().jobs} == {("succeeded", 1)}
    ledger = [line.split()[0] for line in ledger_of(flight.folder / "ledger").elements()]
    assert ledger.count("start") == ledger.count("end") == len(flight.jobs.find().jobs)
    assert "flask_jobrunner/caller" not in web.log, web.log  # no traceback of ours
    assert_no_process_left(mark, timeout=30)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("worker_class", ["gthread", "gevent"])
def test_a_start_that_waits_keeps_nobody_else_waiting(
    gate: Path, gunicorn: Gunicorn, flight: Flight, worker_class: str
) -> None:
    web = gunicorn
    web.configure(worker_class)
    web.serve()
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(flight.take_off, "slow")
        eventually(lambda: flight.jobs.find().jobs, timeout=PATIENCE)
        for _ in range(10):
            web.worker()
        assert not starting.done()
        gate.touch()
        flight.land(starting.result(PATIENCE), "slow")
    eventually(lambda: not web.zombies())
    assert web.stop() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("worker_class", ["sync"])
def test_a_worker_that_is_ended_while_a_start_waits(
    gate: Path, gunicorn: Gunicorn, flight: Flight, worker_class: str
) -> None:
    web = gunicorn
    web.configure(worker_class, timeout=6)
    web.serve()
    old = web.worker()
    with pytest.raises(OSError, match=r"."):
        flight.take_off("slow")
    web.changes_worker(old)
    (job,) = flight.jobs.find().jobs
    assert job.status == "queued"
    gate.touch()
    flight.land(job, "slow")
    assert web.stop() == 0
