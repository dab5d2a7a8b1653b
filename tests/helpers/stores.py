"""The repositories on a database of each kind, without an application around them.

Tables are made once a run and emptied before each test: making them takes longer than most tests.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import sqlalchemy as sa

from flask_jobrunner.model.records import (
    NOBODY,
    Claim,
    Identity,
    Job,
    NewJob,
    NewLine,
    Outcome,
    OwnedJob,
)
from flask_jobrunner.protocol.envelope import Envelope, hash_credential
from flask_jobrunner.protocol.identity import this_process, uuid7
from flask_jobrunner.recovery.verdict import lost
from flask_jobrunner.repositories.attempts import AttemptRepository
from flask_jobrunner.repositories.database import Database, own_engine
from flask_jobrunner.repositories.dispatch import DispatchRepository
from flask_jobrunner.repositories.drains import DrainRepository
from flask_jobrunner.repositories.endings import EndingRepository
from flask_jobrunner.repositories.history import HistoryRepository
from flask_jobrunner.repositories.jobs import JobRepository
from flask_jobrunner.repositories.listing import ListingRepository
from flask_jobrunner.repositories.logs import EventRepository, LogRepository
from flask_jobrunner.repositories.ownership import OwnershipRepository
from flask_jobrunner.repositories.schema import MetaRepository
from flask_jobrunner.repositories.supervisors import SupervisorRepository
from flask_jobrunner.repositories.tables import Tables, build_tables

CREDENTIAL = "ab" * 32
ELSEWHERE = Identity(
    instance=None,
    incarnation=None,
    host="elsewhere.test",
    boot="other-boot",
    pid_ns="pid:[1]",
    pid=4242,
    ticks=7,
)
"""A process that nobody here can look at."""
DEAD = dataclasses.replace(this_process(), pid=2**22 - 1, ticks=1)
"""A process of this host that is gone."""
_tokens = itertools.count(1)


class Repositories(Protocol):
    """What a `Store` has in common with an application's runtime."""

    @property
    def database(self) -> Database: ...
    @property
    def jobs(self) -> JobRepository: ...
    @property
    def ownership(self) -> OwnershipRepository: ...
    @property
    def endings(self) -> EndingRepository: ...
    @property
    def events(self) -> EventRepository: ...
    @property
    def attempts(self) -> AttemptRepository: ...
    @property
    def logs(self) -> LogRepository: ...
    @property
    def dispatch(self) -> DispatchRepository: ...
    @property
    def listing(self) -> ListingRepository: ...
    @property
    def meta(self) -> MetaRepository: ...


@dataclass
class Store:
    """All repositories on one database."""

    database: Database
    url: str
    lease: float = 15.0

    @property
    def kind(self) -> str:
        """`sqlite`, `postgresql` or `mariadb`."""
        return (
            "mariadb"
            if self.url.startswith("mysql")
            else self.url.partition(":")[0].partition("+")[0]
        )

    @cached_property
    def jobs(self) -> JobRepository:
        return JobRepository(self.database)

    @cached_property
    def ownership(self) -> OwnershipRepository:
        return OwnershipRepository(self.database, self.lease)

    @cached_property
    def endings(self) -> EndingRepository:
        return EndingRepository(self.database)

    @cached_property
    def events(self) -> EventRepository:
        return EventRepository(self.database)

    @cached_property
    def attempts(self) -> AttemptRepository:
        return AttemptRepository(self.database)

    @cached_property
    def logs(self) -> LogRepository:
        return LogRepository(self.database)

    @cached_property
    def dispatch(self) -> DispatchRepository:
        return DispatchRepository(self.database)

    @cached_property
    def supervisors(self) -> SupervisorRepository:
        return SupervisorRepository(self.database)

    @cached_property
    def drains(self) -> DrainRepository:
        return DrainRepository(self.database)

    @cached_property
    def listing(self) -> ListingRepository:
        return ListingRepository(self.database)

    @cached_property
    def history(self) -> HistoryRepository:
        return HistoryRepository(self.database)

    @cached_property
    def meta(self) -> MetaRepository:
        return MetaRepository(self.database)


def host_engine(url: str, **options: Any) -> sa.Engine:
    """An engine as a host application has it."""
    return sa.create_engine(url, poolclass=sa.pool.NullPool, **options)


def open_store(url: str, *, keep: bool = False, **options: Any) -> Store:
    """The repositories on a database whose tables are there."""
    tables = build_tables(sa.MetaData(), "jobrun_")
    return Store(Database(own_engine(host_engine(url), options, keep=keep), tables), url)


def make_tables(url: str, prefix: str = "jobrun_") -> Tables:
    """Our tables, in a database without them."""
    metadata = sa.MetaData()
    tables = build_tables(metadata, prefix)
    metadata.create_all(host_engine(url))
    return tables


def empty_tables(store: Repositories) -> None:
    """Delete all rows, children first."""

    def unit(connection: sa.Connection) -> None:
        for table in reversed(store.database.tables.all()):
            connection.execute(table.delete())

    store.database.run(unit)


@contextmanager
def stopped_clock(store: Repositories, at: int) -> Iterator[None]:
    """Let the database's clock stand at `at` (microseconds) for what this process does."""
    real = store.database.now
    store.database.now = lambda: sa.literal(at, sa.BigInteger())  # type: ignore[method-assign]
    try:
        yield
    finally:
        store.database.now = real  # type: ignore[method-assign]


# -- making rows ------------------------------------------------------------------------------


def new_job(**values: Any) -> NewJob:
    """What a row is made from, with a known credential."""
    defaults: dict[str, Any] = {
        "uuid": uuid7(),
        "job_type": "test.job",
        "credential_hash": hash_credential(CREDENTIAL),
        "claim_window": 30.0,
    }
    return NewJob(**defaults | values)


def queue(store: Repositories, **values: Any) -> Job:
    """A queued job."""
    job = store.jobs.add(new_job(**values))
    assert job is not None
    return job


def envelope(job: Job, **values: Any) -> Envelope:
    """The envelope that opens a job made by `queue`."""
    defaults: dict[str, Any] = {
        "job_id": job.id,
        "job_uuid": job.uuid,
        "attempt": job.attempt,
        "claim_mode": "token",
        "credential": CREDENTIAL,
        "revision": None,
        "config_digest": "digest",
        "fingerprint": "fingerprint",
        "claim_window": 30.0,
        "lease": 15.0,
    }
    return Envelope(**defaults | values)


def try_claim(
    store: Repositories,
    job: Job,
    *,
    token: str | None = None,
    worker: Identity | None = None,
    parent: Identity = NOBODY,
    **values: Any,
) -> Claim | None:
    """Claim, or None where that was refused."""
    return store.ownership.claim(
        envelope(job, **values),
        worker=worker or this_process(),
        parent=parent,
        token=token or f"token-{next(_tokens)}",
    )


def claim(store: Repositories, job: Job | None = None, **values: Any) -> Claim:
    """A claimed job; by this process unless said otherwise."""
    won = try_claim(store, job or queue(store), **values)
    assert won is not None
    return won


def start(store: Repositories, job: Job | None = None, **values: Any) -> Claim:
    """A claimed job with its start marker."""
    won = claim(store, job, **values)
    assert store.ownership.mark_started(won.fence, None)
    return won


def end_as(store: Repositories, won: Claim, status: str) -> None:
    """End a claimed job in this status."""
    if status == "lost":
        seen = owned(store, won.fence.job_id)
        assert store.endings.end_dead(seen, lost(seen, 18.0))
        return
    if status == "cancelled":
        store.jobs.request_cancel(won.fence.job_id, 1, None)
    end = Outcome(status=status)  # type: ignore[arg-type]
    assert store.endings.finish(won.fence, end)


def lines(*messages: str, **values: Any) -> list[NewLine]:
    """Log lines."""
    return [NewLine(message, **values) for message in messages]


# -- looking at rows --------------------------------------------------------------------------


def owned(store: Repositories, job: Job | int) -> OwnedJob:
    """The row as it is now."""
    found = store.jobs.owned(job if isinstance(job, int) else job.id)
    assert found is not None
    return found


def status_of(store: Repositories, job_id: int) -> tuple[str, str | None]:
    """Status and reason code as they are now."""
    job = owned(store, job_id).job
    return job.status, job.error_reason_code


def row(store: Repositories, job_id: int) -> dict[str, Any]:
    """All columns of a job, as they are stored."""
    jobs = store.database.tables.jobs
    return dict(store.database.rows(sa.select(jobs).where(jobs.c.id == job_id))[0])


def change(store: Repositories, job_id: int, **values: Any) -> None:
    """Set columns of a job behind everybody's back."""
    jobs = store.database.tables.jobs
    if values:
        statement = jobs.update().where(jobs.c.id == job_id).values(**values)
        store.database.run(lambda connection: connection.execute(statement))


def everything(store: Repositories) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables: equal before and after where nothing was written."""
    tables = store.database.tables.all()
    return store.database.read(
        lambda connection: {
            table.name: [dict(found) for found in connection.execute(sa.select(table)).mappings()]
            for table in tables
        }
    )


def history(store: Repositories, job_id: int) -> list[tuple[str, str | None, str | None]]:
    """(action, from, to) of a job's events."""
    return [(e.action, e.from_status, e.to_status) for e in store.events.of(job_id)]


def messages(store: Repositories, job_id: int) -> list[tuple[int, str]]:
    """(seq, message) of a job's log."""
    return [(line.seq, line.message) for line in store.logs.after(job_id, 0, 1000)]


def assert_sound(store: Repositories, dump: dict[str, list[dict[str, Any]]] | None = None) -> None:
    """What holds at any moment, whatever happened. `dump` is what `everything` says now."""
    tables, found = store.database.tables, dump or everything(store)
    for job in found[tables.jobs.name]:
        seqs = [line["seq"] for line in found[tables.logs.name] if line["job_id"] == job["id"]]
        assert sorted(seqs) == list(range(1, job["log_seq"] + 1)), (job["id"], seqs)
        active = job["status"] in {"queued", "running", "cancel_requested"}
        assert (job["finished_at"] is None) == active
        if active:
            assert (job["active_lock_key"] is None) == (job["lock_key"] is None)
        elif job["status"] != "lost":
            assert job["active_lock_key"] is None
        events = sorted(found[tables.events.name], key=lambda event: int(event["id"]))
        moves = [e for e in events if e["job_id"] == job["id"] and e["to_status"] is not None]
        assert moves[-1]["to_status"] == job["status"]
        for before, after in itertools.pairwise(moves):
            assert after["from_status"] == before["to_status"]
