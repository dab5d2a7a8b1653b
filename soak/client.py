"""One submitter or reader: a process of its own that asks, and writes down what it was told.

A call is written before it is made and again with its answer: `ok`, `fail` (nothing was changed),
or `unknown`. A call without an answer was cut off with its process.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from flask_jobrunner import JobNotFound, LaunchUnknown, LockBusy
from soak.app import APP, FOLDER, append, create_app, jobs

KINDS = ("quick",) * 6 + ("slow",) * 4 + ("loud", "raise", "exit", "die", "deaf")
KEYS = ("red", "green", "blue")
ENOUGH = 8
"""So many jobs may wait before submitters pause, so that the queue is empty in the end."""


@dataclass
class Client:
    """What one process does, by its own random numbers."""

    name: str
    chance: random.Random
    known: list[str] = field(default_factory=list)
    ends: bool = False
    numbers: int = 0

    def call(self, what: str, made: Callable[[], Any], **said: Any) -> Any:
        """Make one call and keep its answer in the history."""
        self.numbers += 1
        entry = {"call": what, "actor": self.name, "pid": os.getpid(), "n": self.numbers, **said}
        self._tell(entry | {"begin": time.monotonic()})
        try:
            result = made()
        except (LockBusy, JobNotFound) as error:
            self._answer(entry, "fail", error)
        except LaunchUnknown as error:
            self._answer(entry | {"uuid": error.job_uuid}, "unknown", error)
        except Exception as error:  # noqa: BLE001 - a database that is away has many names
            self._answer(entry, "unknown", error)
        else:
            job = getattr(result, "job", None)
            uuid = said.get("uuid") if job is None else job.uuid
            status = getattr(result, "status", None)
            answer = "fail" if status == "launch_failed" else "ok"
            self._tell(
                entry | {"end": time.monotonic(), "answer": answer, "status": status, "uuid": uuid}
            )
            return result
        return None

    def _answer(self, entry: dict[str, Any], answer: str, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"[:500]
        self._tell(entry | {"end": time.monotonic(), "answer": answer, "error": text})

    def _tell(self, entry: dict[str, Any]) -> None:
        append(Path(os.environ[FOLDER], "history.jsonl"), entry, durable=False)

    def submit(self) -> None:
        """One random act of a submitter."""
        act = self.chance.choices(
            (self._enqueue, self._start, self._cancel, self._force, self._requeue),
            weights=(10, 2, 3, 1, 3),
        )[0]
        act()

    def _payload(self) -> dict[str, Any]:
        kind = self.chance.choice(KINDS)
        return {"kind": kind, "seconds": self.chance.uniform(0, 1 if kind == "quick" else 8)}

    def _remember(self, result: Any) -> None:
        if result is not None and result.job is not None:
            self.known.append(result.job.uuid)

    def _enqueue(self) -> None:
        waiting = self.call("find", lambda: jobs.find(status="queued", limit=ENOUGH))
        if waiting is None or len(waiting.jobs) >= ENOUGH:
            return
        kind = self.chance.choice(("soak.work", "soak.again"))
        key = self.chance.choice((None, None, *KEYS))
        payload = self._payload()
        for _ in range(2 if key else 1):  # asked again, there is still one job
            self._remember(
                self.call(
                    "enqueue",
                    lambda: jobs.enqueue(kind, payload, lock_key=key, actor=self.name),
                    key=key,
                )
            )

    def _start(self) -> None:
        key = self.chance.choice((None, None, *KEYS))
        payload, wait = self._payload(), self.chance.random() < 0.7
        made = self.call(
            "start",
            lambda: jobs.start("soak.work", payload, lock_key=key, actor=self.name, wait=wait),
            key=key,
        )
        self._remember(made)

    def _one(self) -> str | None:
        return self.chance.choice(self.known[-12:]) if self.known else None

    def _cancel(self) -> None:
        if (uuid := self._one()) is not None:
            self.call("cancel", lambda: jobs.cancel(uuid, actor=self.name), uuid=uuid)

    def _force(self) -> None:
        if (uuid := self._one()) is None:
            return
        command = [sys.executable, "-m", "flask_jobrunner", "--app", APP, "jobs", "cancel"]

        def run() -> None:
            subprocess.run([*command, "--force", uuid], capture_output=True, check=True, timeout=90)

        self.call("force", run, uuid=uuid)

    def _requeue(self) -> None:
        if (uuid := self._one()) is not None:
            confirm = self.chance.random() < 0.5
            self.call(
                "requeue",
                lambda: jobs.requeue(uuid, actor=self.name, confirm_lost=confirm),
                uuid=uuid,
            )

    def read(self) -> None:
        """Follow one job that is going on, for a while, by its line numbers."""
        page = self.call("find", lambda: jobs.find(status="running", limit=5))
        if page is None or not page.jobs:
            return
        uuid, after = self.chance.choice(page.jobs).uuid, 0
        until = time.monotonic() + 15
        while not self.ends and time.monotonic() < until:
            seen = self.call("read", partial(jobs.status, uuid, after_seq=after), uuid=uuid)
            if seen is None:
                continue
            numbers = [line.seq for line in seen.logs]
            self._tell({"call": "lines", "uuid": uuid, "after": after, "numbers": numbers})
            after = seen.last_log_seq
            if seen.job is None or (seen.job.is_terminal and not numbers):
                return
            time.sleep(0.5)


def main() -> None:
    """`python -m soak.client ROLE NAME SEED`, until TERM."""
    role, name, seed = sys.argv[1:]
    client = Client(name, random.Random(seed))
    signal.signal(signal.SIGTERM, lambda *_: setattr(client, "ends", True))
    app = create_app()
    while not client.ends:
        with app.app_context():
            (client.submit if role == "submit" else client.read)()
        time.sleep(client.chance.uniform(0.3, 2.0))


if __name__ == "__main__":
    main()
