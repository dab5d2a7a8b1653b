"""`python -m demo_app`: one line, one address, and nothing left at the end."""

from __future__ import annotations

import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from demo_app import __main__ as demo
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
