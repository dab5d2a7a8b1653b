"""`flask jobs work` beside the demo's server: it runs what a view puts in the queue."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

SLOTS = 2
DRAIN_TIMEOUT = 15
"""Seconds; more than the stubborn job has after it was asked to stop."""
LOG_NAME = "supervisor.log"
QUICK = 10.0
"""Seconds; a supervisor that ends sooner has hardly begun."""
QUICK_ENDS = 3
"""So many in a row, and the next would most likely end as soon."""
COMMAND = (
    *(sys.executable, "-m", "flask_jobrunner", "--app", "demo_app:create_app", "jobs", "work"),
    *("--slots", str(SLOTS), "--drain-timeout", str(DRAIN_TIMEOUT)),
)


@contextlib.contextmanager
def running_supervisor(instance_path: str) -> Iterator[Keeper]:
    """A supervisor of its own for as long as the demo runs; its log is in the instance folder.

    Production starts it as a service of its own: then it outlives a restart of the web server,
    and the service manager starts it again when it has died, as the `Keeper` does here.
    """
    keeper = Keeper(instance_path)
    try:
        yield keeper
    finally:
        keeper.end()


class Keeper:
    """Starts the supervisor, says when it has died, and starts it again."""

    def __init__(self, instance_path: str) -> None:
        self._log = Path(instance_path) / LOG_NAME
        self._environment = os.environ | {"DEMO_INSTANCE": instance_path}
        self._lock = threading.Lock()
        self._ending = False
        self.process = self._start()
        threading.Thread(target=self._watch, name="demo-supervisor", daemon=True).start()

    def end(self) -> None:
        """End it, and start no other."""
        with self._lock:
            self._ending = True
        end(self.process)

    def _start(self) -> subprocess.Popen[bytes]:
        self._since = time.monotonic()
        with self._log.open("ab") as log:
            return subprocess.Popen(
                COMMAND,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                # A Ctrl-C in the terminal is for the demo, which then ends things in their order.
                start_new_session=True,
            )

    def _watch(self) -> None:
        quick_ends = 0
        while quick_ends < QUICK_ENDS:
            code = self.process.wait()
            quick_ends = quick_ends + 1 if time.monotonic() - self._since < QUICK else 0
            with self._lock:
                if self._ending:
                    return
                if quick_ends < QUICK_ENDS:
                    print(f"{ending(code)} Another one takes its place.", flush=True)
                    self.process = self._start()
                else:
                    print(f"{ending(code)} {self._advice()}", flush=True)

    def _advice(self) -> str:
        return (
            f"Its log is {self._log}. Queued jobs wait until there is another one:\n"
            f"DEMO_INSTANCE={shlex.quote(str(self._log.parent))} {shlex.join(COMMAND)}"
        )


def ending(code: int) -> str:
    """How the supervisor ended, as a sentence."""
    if code >= 0:
        return f"The supervisor has ended with exit code {code}."
    return f"The supervisor was ended by {signal.Signals(-code).name}."


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
