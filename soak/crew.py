"""The processes of a soak: who submits, works, sweeps and reads; started again when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from soak.app import APP, SLOTS, STANDBY
from tests.helpers.processes import Seen, children_of, processes_with

SWEEP_PAUSE = 5.0


def flask_jobs(*arguments: str) -> list[str]:
    """The argv of `flask jobs …` for the soak's application."""
    return [sys.executable, "-m", "flask_jobrunner", "--app", APP, "jobs", *arguments]


@dataclass
class Crew:
    """`mark` is in the environment of all of them, and of all jobs."""

    folder: Path
    mark: str
    seed: int
    submitters: int = 3
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    bystanders: list[subprocess.Popen[bytes]] = field(default_factory=list)
    crowds: list[str] = field(default_factory=list)
    starts: int = 0
    swept: float = 0.0
    submitting: bool = True

    def begin(self) -> None:
        """Start everybody, and some whom nobody may touch."""
        environ = {name: word for name, word in os.environ.items() if name != "SOAK_MARK"}
        for own_session in (True, False, False):
            self.bystanders.append(
                subprocess.Popen(["sleep", "86400"], env=environ, start_new_session=own_session)
            )
        self.keep_up()

    def keep_up(self) -> None:
        """Start again who has ended; sweep from time to time."""
        roles = {
            "work-1": flask_jobs("work", "--slots", str(SLOTS)),
            "work-2": flask_jobs("work", "--slots", str(SLOTS)),
        }
        if self.submitting:
            for number in range(self.submitters):
                roles[f"submit-{number}"] = self._client("submit", number)
            roles["read-0"] = self._client("read", 0)
        if time.monotonic() - self.swept > SWEEP_PAUSE:
            roles |= {"sweep-1": flask_jobs("sweep"), "sweep-2": flask_jobs("sweep")}
        for name, argv in roles.items():
            old = self.running.get(name)
            if old is None or old.poll() is not None:
                self._start(name, argv)
        self._count()

    def _client(self, role: str, number: int) -> list[str]:
        seed = f"{self.seed}-{number}-{self.starts}"
        return [sys.executable, "-m", "soak.client", role, f"{role}-{number}", seed]

    def _start(self, name: str, argv: list[str]) -> None:
        self.starts += 1
        if name.startswith("sweep"):
            self.swept = time.monotonic()
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _count(self) -> None:
        for name, process in self.running.items():
            # One that stands by looks like one that runs a job.
            most = SLOTS + STANDBY
            if name.startswith("work") and len(_jobs_of(process.pid)) > most:
                # Looking takes time, in which one may go and another come: who is there twice?
                both = _jobs_of(process.pid) & _jobs_of(process.pid)
                if len(both) > most:
                    self.crowds.append(f"{name} had {len(both)} children at once")

    def seen(self) -> dict[str, list[Seen]]:
        """The processes that a nemesis may choose from, by what they are."""
        found: dict[str, list[Seen]] = {}
        for seen in processes_with(self.mark):
            found.setdefault(_kind(seen.command), []).append(seen)
        return found

    def stop_submitting(self) -> None:
        """Ask submitters and readers to end, and wait for them."""
        self.submitting = False
        self._end([name for name in self.running if name.startswith(("submit", "read"))], 120)

    def end(self) -> None:
        """End everybody in order."""
        self._end(list(self.running), 60)

    def _end(self, names: list[str], seconds: float) -> None:
        for name in names:
            with suppress(ProcessLookupError):
                self.running[name].send_signal(signal.SIGTERM)
        for name in names:
            process = self.running.pop(name)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def gone(self) -> list[int]:
        """The bystanders that have ended; the others end now."""
        gone = [one.pid for one in self.bystanders if one.poll() is not None]
        for one in self.bystanders:
            one.kill()
            one.wait()
        return gone


def _jobs_of(supervisor: int) -> set[int]:
    children = [one for one in children_of(supervisor) if "run-trusted" in one.command]
    return {one.pid for one in children if not one.is_zombie}


def _kind(command: str) -> str:
    if f"flask_jobrunner{os.sep}shim" in command:
        return "shim"
    for words, kind in (
        ("jobs run-trusted", "job"),
        ("jobs run ", "job"),
        ("jobs work", "supervisor"),
        ("soak.client submit", "submitter"),
    ):
        if words in command:
            return kind
    return "other"
