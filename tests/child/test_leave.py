"""The end of a job's process: waited for is only what is worth waiting for."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

# Longer than the deadline of the run: a wait that is not needed would fail the test.
PATIENCE = "leave.THREADS_SECONDS = leave.HOOKS_SECONDS = 60"


def run(code: str, *, seconds: float = 30) -> subprocess.CompletedProcess[str]:
    """A process that ends with `leave(7)` after `code`."""
    program = f"""
import threading, time
from concurrent.futures import ThreadPoolExecutor
from flask_jobrunner.child import leave
{dedent(code)}
leave.leave(7)
"""
    argv = [sys.executable, "-c", program]
    return subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False)


@pytest.mark.parametrize(
    "left",
    [
        "",
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "pool = ThreadPoolExecutor(2); pool.submit(print, 'worked').result()",
    ],
    ids=["nothing", "a daemon thread", "an idle executor"],
)
def test_nothing_is_waited_for_that_needs_no_waiting(left: str) -> None:
    """A process without work of its own left ends at once, whatever the patience is."""
    ended = run(f"{PATIENCE}\n{left}")

    assert ended.returncode == 7, ended.stderr


def test_a_thread_may_finish_its_work() -> None:
    """What a non-daemon thread still prints is there."""
    ended = run(
        f"""
        {PATIENCE}
        go = threading.Event()
        threading.Thread(target=lambda: (go.wait(), print("done"))).start()
        go.set()
        """
    )

    assert (ended.returncode, ended.stdout) == (7, "done\n"), ended.stderr


def test_a_thread_that_never_ends_does_not_keep_the_process() -> None:
    """Patience is bounded."""
    ended = run(
        """
        leave.THREADS_SECONDS = 0.1
        threading.Thread(target=threading.Event().wait).start()
        """
    )

    assert ended.returncode == 7, ended.stderr
