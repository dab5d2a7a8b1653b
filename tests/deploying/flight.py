"""Jobs that are started in a server and run until they are told to land."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Flask

from flask_jobrunner import Job, JobRunner
from tests.deploying.servers import PATIENCE, Web
from tests.helpers.supervising import ended
from tests.helpers.waiting import eventually
from tests.host_acts import script


@dataclass
class Flight:
    """Jobs that run until they are told to land."""

    app: Flask
    jobs: JobRunner
    web: Web
    folder: Path

    def take_off(self, name: str) -> Job:
        """Start a job in the server."""
        acts = ("print", name), ("wait_for_file", str(self.folder / name)), ("return", name)
        answer = self.web.start_job(script(*acts, ledger=self.folder / "ledger"))
        assert answer["status"] == "started", answer
        with self.app.app_context():  # it may be another thread that asks
            job = self.jobs.get(answer["job"]["uuid"])
        assert job is not None
        return job

    def land(self, job: Job, name: str) -> None:
        """Let a job finish; whoever launched it, everything about it is known in the end."""
        (self.folder / name).touch()
        (done,) = ended(self.jobs, job)
        assert (done.status, done.attempt) == ("succeeded", 1), done
        assert self.jobs.status(done.uuid).result == name
        # The report travels from the shim, through the launcher or without it, into the row.
        attempt = eventually(lambda: self._reported(done), timeout=PATIENCE)
        assert (attempt["exit_code"], attempt["signal"]) == (0, None)
        assert attempt["peak_rss"] > 0
        messages = [line.message for line in self.jobs.status(done.uuid, after_seq=0).logs]
        assert messages.count(name) == 1

    def _reported(self, job: Job) -> dict[str, Any]:
        runtime = self.app.extensions["jobrunner"]
        attempts = runtime.database.tables.attempts
        (row,) = runtime.database.rows(attempts.select().where(attempts.c.job_id == job.id))
        return dict(row) if row["exit_code"] is not None else {}
