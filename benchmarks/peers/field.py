"""One contestant at work: its web process, its workers, and all that they started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers import application
from benchmarks.peers.contestants import Contestant
from benchmarks.peers.services import PEERS_PYTHON, ROOT, Services
from tests.helpers.waiting import eventually

PYTHON = str(PEERS_PYTHON) if PEERS_PYTHON.exists() else sys.executable
PATIENCE = 120.0
TICKS = os.sysconf("SC_CLK_TCK")
QUIET_SECONDS = 0.3
QUIET_SHARE = 0.1
"""A contestant is idle when it has used less of a core than this for so long."""


@dataclass(frozen=True)
class Mark:
    """What the job wrote down: its number, `began` or `ended`, when, and its process."""

    number: int
    event: str
    at: int
    pid: int


@dataclass
class Field:
    """A contestant that is measured; `enqueue` and `state` are what its web process does."""

    contestant: Contestant
    folder: Path
    environ: dict[str, str]
    caller: subprocess.Popen[str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def enqueue(self, number: int) -> dict[str, Any]:
        """Put a job into the queue: when that was called, when it returned, a reference."""
        answer: dict[str, Any] = self._ask("enqueue", number)
        return answer

    def state(self, reference: str) -> str:
        """What the tool says of this job."""
        return str(self._ask("state", reference))

    def work(self, slots: int) -> None:
        """Start workers for so many jobs at once."""
        for command in self.contestant.commands(slots):
            with (self.folder / "workers.log").open("ab") as log:
                self.workers.append(
                    subprocess.Popen(
                        [PYTHON, *command],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=self.environ,
                        cwd=ROOT,
                        start_new_session=True,
                    )
                )

    def marks(self) -> list[Mark]:
        """Whatever the jobs wrote down so far."""
        with suppress(FileNotFoundError):
            lines = (self.folder / "marks").read_text().splitlines()
            return [
                Mark(int(number), event, int(at), int(pid))
                for number, event, at, pid in map(str.split, lines)
            ]
        return []

    def mark(self, number: int, event: str) -> Mark:
        """Wait for what this job writes down."""

        def found() -> Mark | None:
            return next(
                (one for one in self.marks() if (one.number, one.event) == (number, event)), None
            )

        seen = eventually(found, timeout=PATIENCE, message=self.last_words)
        assert seen is not None
        return seen

    def settle(self) -> None:
        """Wait until it is idle: what a job leaves to be done is done, whoever does that."""
        give_up = time.monotonic() + PATIENCE
        used = self._used()
        while time.monotonic() < give_up:
            time.sleep(QUIET_SECONDS)
            before, used = used, self._used()
            if abs(used - before) < QUIET_SECONDS * QUIET_SHARE:
                return
        raise AssertionError(f"{self.contestant.name} is never idle: {self.last_words()}")

    def kill(self) -> None:
        """Kill every process of the workers at once, as the end of a container does."""
        while pids := self.pids():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for worker in self.workers:
                worker.wait()
        self.workers.clear()

    def pids(self) -> list[int]:
        """All of the workers' processes, whoever their parent is now: they share a setting."""
        wanted = f"{application.MARKS}={self.folder / 'marks'}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != self.caller.pid:
                with suppress(OSError):
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def last_words(self) -> str:
        """The end of what the workers wrote."""
        with suppress(FileNotFoundError):
            return (self.folder / "workers.log").read_text(errors="replace")[-3000:]
        return "nothing"

    def _ask(self, order: str, value: object) -> Any:
        assert self.caller.stdin is not None
        self.caller.stdin.write(json.dumps([order, value]) + "\n")
        self.caller.stdin.flush()
        return answered(self.caller)

    def _used(self) -> float:
        """Seconds of CPU that its processes have used, those that are gone included."""
        used = 0
        for pid in self.pids():
            with suppress(OSError):
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                used += sum(map(int, stat[11:15]))
        return used / TICKS


def answered(caller: subprocess.Popen[str]) -> Any:
    """The next line of a web process."""
    assert caller.stdout is not None
    line = caller.stdout.readline()
    assert line, f"a web process ended: {caller.args!r}"
    return json.loads(line)


@contextmanager
def fielded(
    services: Services, contestant: Contestant, *, pause: float = 0.0
) -> Iterator[Field | None]:
    """A contestant without workers yet; jobs take `pause` seconds. None: it is not installed.

    All of its processes have ended when the block is left, in whatever way.
    """
    here = contestant.is_ours or PEERS_PYTHON.exists()
    url = services.url(contestant.service) if here else None
    if url is None:
        yield None
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="peers-")))
        environ = os.environ | contestant.environ | _settings(contestant, folder, url)
        environ[application.PAUSE] = str(pause)
        caller = stack.enter_context(
            subprocess.Popen(
                [PYTHON, "-m", "benchmarks.peers.caller", contestant.tool],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environ,
                cwd=ROOT,
            )
        )
        stack.callback(caller.kill)
        answered(caller)
        made = Field(contestant, folder, environ, caller)
        stack.callback(made.kill)
        yield made


def _settings(contestant: Contestant, folder: Path, url: str) -> dict[str, str]:
    # Those whose queue is elsewhere have a database of their own, as the application needs one.
    own = f"sqlite:///{folder / 'app.sqlite'}"
    return {
        application.MARKS: str(folder / "marks"),
        application.DATABASE: url if contestant.is_ours else own,
        application.SERVICE: url.replace("postgresql+psycopg:", "postgresql:"),
        "RQ_REDIS_URL": url,
        "PYTHONPATH": str(ROOT),
    }
