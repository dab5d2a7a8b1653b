"""`python -m demo_app`: one line, one address, and nothing left at the end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from demo_app import __main__ as demo
from demo_app import supervisor
from tests.demo_app.running import running_demo
from tests.helpers.processes import assert_no_process_left
from tests.helpers.waiting import eventually


def test_the_demo_prints_one_address_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--port", "0") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=10) as page:
            assert b"Import birdstrikes.csv" in page.read()
        smoke = urllib.request.Request(f"{address}run/smoke", data=b"seconds=60")
        with urllib.request.urlopen(smoke, timeout=30) as page:
            assert "/jobs/" in page.url
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        eventually(lambda: process.poll() is not None, timeout=30, message="the demo has ended")
        rest = process.stdout.read()

    assert process.returncode == 0
    assert rest == "Stopping the jobs that still run; Ctrl-C leaves them to themselves.\n"
    assert_no_process_left(str(tmp_path), timeout=10)


def test_a_supervisor_beside_the_server_runs_what_waits(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--port", "0") as (process, address):
        queue = urllib.request.Request(f"{address}queue", data=b"")
        with urllib.request.urlopen(queue, timeout=30) as page:
            assert page.url == f"{address}jobs/"
        eventually(lambda: len(told(tmp_path, "ended")) == 5, timeout=90)
        with urllib.request.urlopen(f"{address}jobs/supervisors", timeout=10) as page:
            assert b"of 2 used" in page.read()
        process.send_signal(signal.SIGHUP)
        eventually(lambda: process.poll() is not None, timeout=40, message="the demo has ended")
    assert_no_process_left(str(tmp_path), timeout=10)
    assert {line["status"] for line in told(tmp_path, "ended")} == {"succeeded"}
    started = [line["id"] for line in told(tmp_path, "started")]
    # Two slots may have been taken before the last job, with the highest priority, was there.
    assert started.index(max(started)) <= 2
    assert told(tmp_path, "stopped")


def test_a_supervisor_that_is_killed_is_followed_by_another(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--port", "0") as (process, address):
        eventually(lambda: told(tmp_path, "ready"), timeout=60, message="it looks for jobs")
        os.kill(told(tmp_path, "ready")[0]["pid"], signal.SIGKILL)

        assert process.stdout is not None
        said = process.stdout.readline()
        queue = urllib.request.Request(f"{address}queue", data=b"")
        urllib.request.urlopen(queue, timeout=30).close()
        eventually(lambda: len(told(tmp_path, "ended")) == 5, timeout=90)

    assert said == "The supervisor was ended by SIGKILL. Another one takes its place.\n"
    assert_no_process_left(str(tmp_path), timeout=20)


def test_a_supervisor_that_cannot_start_is_not_started_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusing = (sys.executable, "-c", "raise SystemExit(78)")
    monkeypatch.setattr(supervisor, "COMMAND", refusing)
    said = ""

    def advised() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return said.count("\n") == 4

    with supervisor.running_supervisor(str(tmp_path)):
        eventually(advised, timeout=60, message=lambda: f"it says what to do: {said}")

    lines = said.splitlines()
    assert lines[:2] == 2 * [
        "The supervisor has ended with exit code 78. Another one takes its place."
    ]
    assert lines[2].startswith(f"The supervisor has ended with exit code 78. Its log is {tmp_path}")
    assert lines[3] == f"DEMO_INSTANCE={tmp_path} {shlex.join(refusing)}"


def told(folder: Path, event: str) -> list[dict[str, Any]]:
    """What the log of the demo's supervisor says of such an event."""
    log = [json.loads(line) for line in (folder / "supervisor.log").read_text().splitlines()]
    return [line for line in log if line["event"] == event]


def test_a_port_that_is_asked_for_and_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running_demo(tmp_path, "--port", port) as (process, said):
            assert process.wait(timeout=30) == 2

    assert said == f"Port {port} cannot be used: Address already in use."


def test_a_free_port_is_taken_where_the_usual_one_is_not_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(demo, "DEFAULT_PORT", taken.getsockname()[1])
        with demo.listen(None) as listener:
            assert listener.getsockname()[1] != taken.getsockname()[1]
