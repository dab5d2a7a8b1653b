"""Push jobs below uWSGI, which is no Python and may keep its threads from running."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.deploying.flight import Flight
from tests.deploying.servers import (
    UWSGI,
    can_be_bound,
    free_port,
    held_by,
    listening_inode,
    shims_and_children,
    uwsgi_program,
)
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import assert_no_process_left
from tests.helpers.waiting import eventually

pytestmark = [
    pytest.mark.skipif(
        uwsgi_program() is None,
        reason="uWSGI is not here, and has to be compiled; what it does to us is imitated in "
        "tests/caller/test_launch_servers.py",
    ),
    pytest.mark.slow,
]


@pytest.fixture
def uwsgi(tmp_path: Path) -> Iterator[UWSGI]:
    """A uWSGI that is not started yet."""
    server = UWSGI(tmp_path, free_port())
    yield server
    server.kill()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("options", [[], ["--enable-threads", "--lazy-apps"]], ids=" ".join)
def test_jobs_outlive_reload_and_stop(
    uwsgi: UWSGI,
    host_environment: HostEnvironment,
    host_app: Flask,
    host_jobs: JobRunner,
    tmp_path: Path,
    options: list[str],
) -> None:
    flight, mark = Flight(host_app, host_jobs, uwsgi, tmp_path), host_environment.mark
    uwsgi.serve(*options)
    names = ["long 1", "long 2", "long 3"]
    long = [(flight.take_off(name), name) for name in names]
    shims, children = shims_and_children(mark)
    assert (len(shims), len(children)) == (3, 3)
    assert not [pid for pid in shims + children if listening_inode(uwsgi.port) in held_by(pid)]

    flight.land(*long[0])
    flight.land(flight.take_off("short"), "short")
    # A start waits, and meanwhile even resting threads run.
    flight.land(flight.take_off("shorter"), "shorter")
    at_most = uwsgi.log.count("uWSGI runs without threads")
    assert at_most == uwsgi.log.count("Python threads support is disabled")
    eventually(lambda: len(uwsgi.zombies()) <= at_most, message=lambda: f"{uwsgi.zombies()}")

    old = uwsgi.worker()
    assert uwsgi.process is not None
    uwsgi.process.send_signal(signal.SIGHUP)
    uwsgi.changes_worker(old)
    flight.land(*long[1])
    flight.land(flight.take_off("after a reload"), "after a reload")

    uwsgi.stop()
    assert can_be_bound(uwsgi.port)
    flight.land(*long[2])
    assert "Traceback" not in uwsgi.log, uwsgi.log
    assert_no_process_left(mark, timeout=30)
