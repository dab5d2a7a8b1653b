"""PgBouncer in transaction mode: no transaction finds the session of the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.cli.doctor import waking
from tests.helpers import requirements
from tests.helpers.hosts import HostEnvironment
from tests.helpers.invariants import check
from tests.helpers.stores import claim, lines, make_tables, messages, open_store, owned, queue
from tests.helpers.supervising import QUICK, ended, in_status, ledger_of, supervisors
from tests.host_acts import script
from tests.servers import binaries, pgbouncer

pytestmark = [pytest.mark.slow, pytest.mark.postgresql]
JOBS = 12


@pytest.fixture
def database_url(postgresql_url: str) -> Iterator[str]:
    """By way of the pooler, for this process and for all that it starts."""
    if binaries.find(pgbouncer.NAME) is None:
        requirements.missing("PgBouncer", pgbouncer.INSTALL)
    with pgbouncer.pooled(postgresql_url) as url:
        yield url


@pytest.fixture
def host_config() -> dict[str, object]:
    return dict(QUICK)


def test_jobs_are_pushed_pulled_and_cancelled_through_it(
    host_app: Flask,
    host_jobs: JobRunner,
    host_environment: HostEnvironment,
    postgresql_url: str,
    tmp_path: Path,
) -> None:
    ledgers = [tmp_path / f"ledger-{number}" for number in range(JOBS)]
    acts = [("print_lines", 30), ("progress", 1, 2), ("pause", 1.5), ("return", 7)]
    made = [
        host_jobs.enqueue("host.script", script(*acts, ledger=ledger), lock_key=ledger.name).job
        for ledger in ledgers
    ]
    asked = host_jobs.start("host.script", script(("wait_for_cancel",), ("raise_if_cancelled",)))
    assert asked.status == "started"
    with supervisors(host_app, host_environment, tmp_path) as pull:
        for _ in range(2):
            pull.work("--slots", 3, ready=False)
        in_status(host_jobs, asked.job, "running")
        assert host_jobs.cancel(asked.job.uuid).status == "cancel_requested"
        done = ended(host_jobs, *made, asked.job)
        for working in pull.started:
            working.stop()

    assert [job.status for job in done] == ["succeeded"] * JOBS + ["cancelled"]
    assert all(job.attempt == 1 and host_jobs.status(job.uuid).result == 7 for job in done[:-1])
    assert [ledger_of(ledger).total() for ledger in ledgers] == [2] * JOBS
    assert all(host_jobs.find(lock_key=ledger.name).jobs == [] for ledger in ledgers)
    known = {job.id: ledger for job, ledger in zip(made, ledgers, strict=True)}
    assert check(sa.create_engine(postgresql_url), known) == []


def test_kept_connections_share_the_servers_sessions(database_url: str) -> None:
    """More often than psycopg sends a statement before it has the server prepare it."""
    make_tables(database_url)
    stores = [open_store(database_url, keep=True) for _ in range(4)]
    owners = [(store, claim(store, queue(store))) for store in stores]
    for seq in range(12):
        for store, won in owners:
            assert store.ownership.beat(won.fence, lines=lines(f"{seq}"), last_seq=seq)
    for store, won in owners:
        job_id = won.fence.job_id
        assert owned(store, job_id).job.status == "running"
        assert messages(store, job_id) == [(seq + 1, f"{seq}") for seq in range(12)]
        store.database.engine.dispose()


@pytest.mark.parametrize("host_config", [{**QUICK, "JOBRUNNER_IDLE_SLEEP": 3600}])
def test_where_the_pooler_loses_every_word_a_supervisor_asks(
    host_app: Flask, host_jobs: JobRunner, host_environment: HostEnvironment, tmp_path: Path
) -> None:
    """It takes LISTEN, and then lends the session that listens to others."""
    with supervisors(host_app, host_environment, tmp_path) as pull:
        working = pull.work()
        told = working.tells("not_listening")
        ended(host_jobs, host_jobs.enqueue("host.nothing").job)
        working.stop()
    assert "nothing is heard, as behind a pooler" in told["message"]


def test_the_doctor_says_that_the_pooler_loses_every_word(host_app: Flask) -> None:
    with host_app.app_context():
        [told] = waking.examine(host_app.extensions["jobrunner"])
    assert told.level == "warning"
    assert "pooler in transaction mode" in told.message
