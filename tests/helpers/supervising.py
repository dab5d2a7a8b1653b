"""Supervisors as processes of their own, and what they and their jobs left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.runtime import Runtime
from tests import host_app
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import children_of
from tests.helpers.waiting import eventually

QUICK: dict[str, object] = {
    "JOBRUNNER_HEARTBEAT": 0.5,
    "JOBRUNNER_LEASE": 3,
    "JOBRUNNER_IDLE_SLEEP": 0.2,
}
ONLY_STANDBY = """
from flask_jobrunner.supervisor import intake
has_place = intake.Intake._has_place
def has_place_and_standby(self):
    reserve = self._crew._reserve
    ready = reserve._pause.failures or any(one.is_warm for one in reserve._waiting)
    return has_place(self) and ready
intake.Intake._has_place = has_place_and_standby
"""
"""Lets a supervisor take jobs when one stands by, or none can: tests want it to be used."""
PATIENT = """
from flask_jobrunner.supervisor import children
children.ANSWER_SECONDS = 60.0
"""
"""For a supervisor that gives up nobody who stood by, however slow the machine is."""
PATIENCE = 90.0
"""Seconds: processes that build an application are slow where many tests run at once."""


@dataclass
class Working:
    """One `flask jobs work`."""

    process: subprocess.Popen[bytes]
    path: Path

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def log(self) -> list[dict[str, Any]]:
        """What it logged so far."""
        return [json.loads(line) for line in self.path.read_text().splitlines() if line]

    def told(self, event: str) -> list[dict[str, Any]]:
        """The entries of one kind."""
        return [entry for entry in self.log() if entry["event"] == event]

    def tells(self, event: str, count: int = 1, *, timeout: float = PATIENCE) -> dict[str, Any]:
        """Wait for the `count`-th entry of this kind."""
        eventually(
            lambda: len(self.told(event)) >= count or self.process.poll() is not None,
            timeout=timeout,
            message=lambda: f"{event}: {self.log()}",
        )
        assert len(self.told(event)) >= count, f"it ended before {event}: {self.log()}"
        return self.told(event)[count - 1]

    def children(self) -> list[int]:
        """The processes of its jobs, and none that only stands by."""
        found = [seen for seen in children_of(self.pid) if not seen.is_zombie]
        jobs = {entry["pid"] for entry in self.told("started")}
        return [seen.pid for seen in found if "--standby" not in seen.command or seen.pid in jobs]

    def send(self, number: int) -> None:
        """Send a signal to the supervisor alone."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without a chance to say anything."""
        self.process.kill()
        self.process.wait()

    def exit_code(self, *, timeout: float = PATIENCE) -> int:
        """Wait for its end."""
        eventually(
            lambda: self.process.poll() is not None,
            timeout=timeout,
            message=lambda: f"it goes on: {self.log()}",
        )
        return int(self.process.returncode)

    def stop(self) -> None:
        """Have it end in order."""
        self.send(signal.SIGTERM)
        assert self.exit_code() == 0


@dataclass
class Supervisors:
    """Starts supervisors for one host application; those that still run at the end are ended."""

    app: Flask
    environment: HostEnvironment
    folder: Path
    standby: int = 0
    """How many processes stand by, and are waited for."""
    started: list[Working] = field(default_factory=list)

    @property
    def runtime(self) -> Runtime:
        """The application's runtime."""
        found: Runtime = self.app.extensions["jobrunner"]
        return found

    def work(
        self, *arguments: object, argv: Sequence[str] = (), ready: bool = True, **environ: str
    ) -> Working:
        """Start `flask jobs work …`; `argv` is a command of one's own in its place."""
        if self.standby and not argv:
            return self.work_patched("", *arguments, ready=ready, **environ)
        path = self.folder / f"work-{len(self.started)}.log"
        command = list(argv) or self.environment.command("jobs", "work")
        with path.open("wb") as file:
            process = subprocess.Popen(
                [*command, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.DEVNULL if not argv else None,
                env={**os.environ, **environ},
                start_new_session=True,
            )
        working = Working(process, path)
        self.started.append(working)
        if ready:
            working.tells("ready")
        return working

    def columns(self, *names: str) -> list[tuple[Any, ...]]:
        """These columns of all jobs, by id."""
        jobs = self.runtime.database.tables.jobs
        statement = sa.select(*(jobs.c[name] for name in names)).order_by(jobs.c.id)
        rows = self.runtime.database.rows(statement)
        return [tuple(row[name] for name in names) for row in rows]

    def change(self, job: Job, **values: Any) -> None:
        """Set columns of a job behind everybody's back."""
        jobs = self.runtime.database.tables.jobs
        statement = jobs.update().where(jobs.c.id == job.id).values(**values)
        self.runtime.database.run(lambda connection: connection.execute(statement))

    def work_patched(self, patch: str, *arguments: object, **options: Any) -> Working:
        """Start a supervisor that runs the Python lines `patch` first."""
        lines = [patch, "from flask_jobrunner.__main__ import main", "main()"]
        if self.standby:
            lines.insert(0, ONLY_STANDBY)
            arguments = (*arguments, "--standby", self.standby)
        argv = [sys.executable, "-c", "\n".join(lines), "--app", host_app.APP, "jobs", "work"]
        return self.work(*arguments, argv=argv, **options)

    def close(self) -> None:
        """End what still runs."""
        for one in self.started:
            if one.process.poll() is None:
                with suppress(ProcessLookupError):
                    one.process.kill()
                one.process.wait()


@contextmanager
def supervisors(
    app: Flask, environment: HostEnvironment, folder: Path, standby: int = 0
) -> Iterator[Supervisors]:
    """A `Supervisors` whose processes have ended when the block is left."""
    found = Supervisors(app, environment, folder, standby)
    try:
        yield found
    finally:
        found.close()


def ended(jobs: JobRunner, *of: Job, timeout: float = PATIENCE) -> list[Job]:
    """The jobs, once all have ended."""
    wanted = [job.uuid for job in of]

    def all_ended() -> bool:
        found = jobs.get_many(wanted)
        return all(found[uuid].is_terminal for uuid in wanted)

    eventually(
        all_ended,
        timeout=timeout,
        message=lambda: f"{[(j.id, j.status) for j in jobs.get_many(wanted).values()]}",
    )
    found = jobs.get_many(wanted)
    return [found[uuid] for uuid in wanted]


def in_status(jobs: JobRunner, job: Job, status: str, *, timeout: float = PATIENCE) -> Job:
    """The job, once it is in this status."""

    def found() -> Job | None:
        now = jobs.get_many([job.uuid])[job.uuid]
        return now if now.status == status else None

    return (
        eventually(found, timeout=timeout, message=lambda: f"{jobs.get_many([job.uuid])[job.uuid]}")
        or job
    )


def ledger_of(path: Path) -> Counter[str]:
    """How often each line stands in a ledger."""
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()
