"""`flask jobs work` beside the demo's server: it runs what a view puts in the queue."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SLOTS = 2
DRAIN_TIMEOUT = 15
"""Seconds; more than the stubborn job has after it was asked to stop."""
LOG_NAME = "supervisor.log"


@contextlib.contextmanager
def running_supervisor(instance_path: str) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor of its own for as long as the demo runs; its log is in the instance folder.

    Production starts it as a service of its own: then it outlives a restart of the web server.
    """
    command = [sys.executable, "-m", "flask_jobrunner", "--app", "demo_app:create_app", "jobs"]
    command += ["work", "--slots", str(SLOTS), "--drain-timeout", str(DRAIN_TIMEOUT)]
    with (Path(instance_path) / LOG_NAME).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {"DEMO_INSTANCE": instance_path},
            # A Ctrl-C in the terminal is for the demo, which then ends things in their order.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; a second Ctrl-C hurries it, and it ends its jobs at once."""
    process.terminate()
    try:
        process.wait(DRAIN_TIMEOUT + 10)
    except KeyboardInterrupt:
        for _ in range(2):  # past the draining, past the asking
            process.send_signal(signal.SIGTERM)
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
