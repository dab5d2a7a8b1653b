"""The measures, each with the bare thing beside it, in turns, on one machine in one run."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa
from flask import Flask

from benchmarks import host_app, pulling, raw
from benchmarks.host_app import db, jobs
from benchmarks.timing import Comparison, milliseconds

END = 120.0
"""Seconds a job may take until its end."""


@dataclass(frozen=True)
class Bench:
    """One application and its database, and a second, empty one with the same tables."""

    name: str
    app: Flask
    second: sa.Engine

    def table(self, suffix: str) -> sa.Table:
        return db.metadata.tables[f"jobrun_{suffix}"]

    def measures(self, rounds: int, lines: int) -> Iterator[Comparison]:
        """Every measure, as it is taken."""
        with self.app.app_context():
            self._run("nothing")  # warms the caches of the file system
            yield self.start_returns(rounds)
            yield self.start_is_claimed(rounds)
            yield self.pulled_job_begins(rounds)
            yield self.lines_per_second(lines, rounds=3)

    def start_returns(self, rounds: int) -> Comparison:
        """`start(wait=False)` beside `Popen(["true"])` and one raw INSERT."""
        ours, bare = [], []
        [row] = raw.rows_of(db.engine, self.table("jobs"))[:1]
        numbers = itertools.count(1000)
        with raw.driver(self.second) as connection:
            table = raw.RawTable(connection, self.table("jobs"), self.second.dialect)
            for _ in range(rounds):
                started = time.perf_counter()
                job = jobs.start("nothing", wait=False).job
                ours.append((time.perf_counter() - started) * 1000)
                self._end(job)

                started = time.perf_counter()
                table.insert([raw.another_job(row, next(numbers))])
                process = subprocess.Popen(["true"])
                bare.append((time.perf_counter() - started) * 1000)
                process.wait()
        return self._compare("start(wait=False) returns", ours, bare, "ms", 1.5)

    def start_is_claimed(self, rounds: int) -> Comparison:
        """`start()`, which waits for the claim, beside one bare command of the same app."""
        ours, bare = [], []
        command = [sys.executable, "-m", "flask", "--app", host_app.APP, "noop-with-one-query"]
        for _ in range(rounds):
            started = time.perf_counter()
            result = jobs.start("nothing")
            ours.append((time.perf_counter() - started) * 1000)
            assert result.status == "started", result
            self._end(result.job)
            bare.append(milliseconds(lambda: subprocess.run(command, check=True)))
        return self._compare("start() returns, claimed", ours, bare, "ms", 1.15)

    def pulled_job_begins(self, rounds: int) -> Comparison:
        """With a process that stands by, beside the same supervisor without one."""
        warm, new = pulling.in_turns(rounds)
        return self._compare("enqueue() to handler: standby 1, standby 0", warm, new, "ms", 0.5)

    def lines_per_second(self, lines: int, rounds: int) -> Comparison:
        """`print` in a handler until all rows are there, beside one `executemany` of them."""
        ours, bare = [], []
        with raw.driver(self.second) as connection:
            for _ in range(rounds):
                job = self._run("print-lines", {"lines": lines})
                assert job.finished_at is not None
                assert job.handler_started_at is not None
                ours.append(lines / (job.finished_at - job.handler_started_at).total_seconds())
                rows = raw.rows_of(db.engine, self.table("logs"), job_id=job.id)
                assert len(rows) >= lines, len(rows)
                self._add_job(connection, job.id)
                table = raw.RawTable(connection, self.table("logs"), self.second.dialect)
                taken = milliseconds(partial(table.insert, rows))
                bare.append(len(rows) / taken * 1000)
        return self._compare("print to rows", ours, bare, "lines/s", 0.4, more_is_better=True)

    def _add_job(self, connection: Any, job_id: int) -> None:
        [row] = raw.rows_of(db.engine, self.table("jobs"), id=job_id)
        table = raw.RawTable(connection, self.table("jobs"), self.second.dialect)
        table.insert([raw.another_job(row, job_id)])

    def _run(self, job_type: str, payload: dict[str, object] | None = None) -> Any:
        return self._end(jobs.start(job_type, payload).job)

    def _end(self, job: Any) -> Any:
        ended = jobs.wait(job.uuid, timeout=END)
        assert ended.status == "succeeded", ended
        return ended

    def _compare(
        self,
        measure: str,
        ours: list[float],
        bare: list[float],
        unit: str,
        target: float,
        *,
        more_is_better: bool = False,
    ) -> Comparison:
        return Comparison(
            measure=measure,
            database=self.name,
            ours=ours,
            bare=bare,
            unit=unit,
            target=target,
            more_is_better=more_is_better,
        )
