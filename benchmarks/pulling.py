"""From the commit of `enqueue` to the first line of the handler, by a supervisor that is idle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import host_app
from benchmarks.host_app import jobs

IDLE_SLEEP = 0.005
"""How often the supervisors look, in seconds: what is measured is all that comes after that."""
END = 120.0


@dataclass
class Working:
    """A supervisor that takes the jobs of one type; `standby` is 0 or 1."""

    job_type: str
    standby: int
    log: Path
    taken: int = 0

    def milliseconds(self) -> float:
        """How long one job took to begin; the supervisor is idle again before."""
        self._until("standing_by" if self.standby else "ready", self.taken + 1)
        job = jobs.enqueue(self.job_type).job
        committed = time.time_ns()
        assert jobs.wait(job.uuid, timeout=END).status == "succeeded"
        began = jobs.status(job.uuid).result
        assert isinstance(began, int)
        self.taken += 1
        self._until("ended", self.taken)
        return (began - committed) / 1e6

    def _until(self, event: str, count: int) -> None:
        give_up = time.monotonic() + END
        wanted = count if event != "ready" else 1
        while sum(entry["event"] == event for entry in self._entries()) < wanted:
            assert time.monotonic() < give_up, self.log.read_text()
            time.sleep(0.02)

    def _entries(self) -> Iterator[dict[str, object]]:
        for line in self.log.read_text().splitlines():
            yield json.loads(line)


@contextmanager
def working(job_type: str, standby: int) -> Iterator[Working]:
    """A supervisor, ended when the block is left."""
    command = [sys.executable, "-m", "flask_jobrunner", "--app", host_app.APP, "jobs", "work"]
    environ = {**os.environ, host_app.IDLE_SLEEP: str(IDLE_SLEEP)}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*command, "--types", job_type, "--standby", str(standby)],
                stdout=file,
                env=environ,
            )
        try:
            yield Working(job_type, standby, log)
        finally:
            process.terminate()
            process.wait()


def in_turns(rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds with a process that stands by, and with one that is started for the job."""
    warm, new = [], []
    with working("when-warm", 1) as with_one, working("when-new", 0) as without:
        for number in range(rounds + 1):
            taken = with_one.milliseconds(), without.milliseconds()
            if number:  # the first warms the caches
                warm.append(taken[0])
                new.append(taken[1])
    return warm, new
