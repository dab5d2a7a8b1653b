"""What a service manager is told, and what it does when it ends a unit as a whole."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.deploying.flight import Flight
from tests.deploying.servers import Gunicorn
from tests.helpers.hosts import HostEnvironment, end_processes
from tests.helpers.supervising import PATIENCE, ended, supervisors
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
CREDENTIALS = struct.Struct("3i")


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket on which systemd would listen."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        listening.bind(str(path))
        listening.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        yield listening


def heard(manager: socket.socket, wanted: str) -> tuple[str, int]:
    """The first message that begins so, and the process that sent it."""
    while True:
        data, ancillary, _, _ = manager.recvmsg(4096, socket.CMSG_SPACE(CREDENTIALS.size))
        if data.decode().startswith(wanted):
            return data.decode(), CREDENTIALS.unpack(ancillary[0][2])[0]


def test_the_supervisor_itself_says_how_it_is(
    manager: socket.socket,
    host_app: Flask,
    host_environment: HostEnvironment,
    host_jobs: JobRunner,
    tmp_path: Path,
) -> None:
    with supervisors(host_app, host_environment, tmp_path) as pull:
        working = pull.work()
        # NotifyAccess=main: another process would not be believed.
        assert heard(manager, "READY=1") == ("READY=1", working.pid)
        assert heard(manager, "WATCHDOG=1")[1] == working.pid
        show = script(("program", "sh", "-c", "env | cut -d= -f1"))
        job = host_jobs.enqueue("host.script", show).job
        assert heard(manager, "STATUS=working, 1 of 1")[1] == working.pid
        ended(host_jobs, job)
        printed = {line.message for line in host_jobs.status(job.uuid, after_seq=0).logs}
        assert "PATH" in printed
        assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC"} & printed
        working.send(signal.SIGTERM)
        assert heard(manager, "STOPPING=1")[1] == working.pid
        assert working.exit_code() == 0


def test_gunicorn_does_not_lend_its_socket_to_jobs(
    manager: socket.socket, gunicorn: Gunicorn, host_app: Flask, host_jobs: JobRunner
) -> None:
    gunicorn.configure("sync")
    gunicorn.serve()
    assert gunicorn.process is not None
    assert heard(manager, "READY=1")[1] == gunicorn.process.pid
    show = script(("program", "sh", "-c", "env | cut -d= -f1"))
    job = host_jobs.get(gunicorn.start_job(show)["job"]["uuid"])
    assert job is not None
    ended(host_jobs, job)
    printed = {line.message for line in host_jobs.status(job.uuid, after_seq=0).logs}

    assert "PATH" in printed
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "SERVER_SOFTWARE"} & printed
    assert gunicorn.stop() == 0


def test_a_unit_that_is_killed_as_a_whole(
    host_environment: HostEnvironment,
    host_app: Flask,
    host_jobs: JobRunner,
    gunicorn: Gunicorn,
    tmp_path: Path,
) -> None:
    gunicorn.configure("sync")
    gunicorn.serve()
    job = Flight(host_app, host_jobs, gunicorn, tmp_path).take_off("never")
    os.kill(gunicorn.worker(), signal.SIGSTOP)  # it must not see the others end
    end_processes(host_environment.mark)

    def settled() -> bool:
        seen = host_jobs.get(job.uuid)
        return seen is not None and (seen.status, seen.error_reason_code) == (
            "interrupted",
            "owner_gone",
        )

    # Whoever looks sees it; no sweep is needed.
    eventually(settled, timeout=10, message=lambda: f"{host_jobs.get(job.uuid)}")
