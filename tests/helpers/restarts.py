"""Jobs that run while their database server crashes, and what must be true of them afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from flask_jobrunner import Job, JobRunner
from tests.helpers import requirements
from tests.helpers.supervising import PATIENCE, Supervisors, ended, in_status, ledger_of
from tests.helpers.waiting import eventually, stays
from tests.hosts.busy import payload
from tests.servers import mariadb, postgresql

Server = postgresql.PostgreSQL | mariadb.MariaDB


@contextmanager
def server_that_crashes(kind: str) -> Iterator[Server]:
    """A server of its own that keeps what it has committed, whatever ends it."""
    if kind == "postgresql":
        if postgresql.programs() is None:
            requirements.missing("PostgreSQL", postgresql.INSTALL)
        running: Server = postgresql.start(changes={"synchronous_commit": "on"})
    else:
        if mariadb.programs() is None:
            requirements.missing("MariaDB", mariadb.INSTALL)
        running = mariadb.start(changes=["--innodb-flush-log-at-trx-commit=2"])
    try:
        yield running
    finally:
        running.server.stop()


def crash_for(server: Server, seconds: float) -> None:
    """End the server, and start it again after so long."""
    server.crash()
    ended = server.server.process.poll
    stays(lambda: ended() is not None, seconds=seconds, message="the server is away")
    server.start_again()


def begin(jobs: JobRunner, pull: Supervisors, folder: Path, each: int) -> list[Job]:
    """So many pushed jobs and so many pulled ones, all of which run."""
    pull.work("--slots", each)
    made = [jobs.start("busy", payload(folder, n), wait=False).job for n in range(each)]
    made += [jobs.enqueue("busy", payload(folder, n)).job for n in range(each, 2 * each)]
    for number, job in enumerate(made):
        eventually(partial(ledger_of, folder / f"{number}"), timeout=PATIENCE)
        in_status(jobs, job, "running")
    return made


def go_on_printing(jobs: JobRunner, made: list[Job]) -> None:
    """Wait for new lines of each."""
    before = jobs.get_many([job.uuid for job in made])
    seqs = {uuid: jobs.status(uuid).last_log_seq for uuid in before}
    for uuid, seq in seqs.items():
        eventually(
            lambda uuid=uuid, seq=seq: jobs.status(uuid).last_log_seq > seq,  # type: ignore[misc]
            timeout=PATIENCE,
        )


def all_end_as_they_would_have(
    jobs: JobRunner, pull: Supervisors, made: list[Job], folder: Path
) -> None:
    """Each succeeds, began once, printed every line once, and was never judged."""
    (folder / "go-on").touch()
    done = ended(jobs, *made)
    assert Counter((job.status, job.attempt) for job in done) == {("succeeded", 1): len(made)}
    for number, job in enumerate(done):
        assert [line.split()[:2] for line in ledger_of(folder / f"{number}")] == [["start", "1"]]
        count = jobs.status(job.uuid).result
        assert isinstance(count, int)
        lines = jobs.status(job.uuid, after_seq=0, limit=1000).logs
        said = [line.message for line in lines if line.message.startswith("line ")]
        assert said == [f"line {n}" for n in range(1, count + 1)]
    events = pull.runtime.database.tables.events
    rows = pull.runtime.database.rows(sa.select(events.c.to_status))
    steps = Counter(row["to_status"] for row in rows if row["to_status"])
    assert steps == dict.fromkeys(("queued", "running", "succeeded"), len(made))


def servers() -> pytest.MarkDecorator:
    """Parametrizes `crashing` with the servers."""
    return pytest.mark.parametrize(
        "crashing",
        [
            pytest.param("postgresql", marks=pytest.mark.postgresql),
            pytest.param("mariadb", marks=pytest.mark.mariadb),
        ],
        indirect=True,
    )
