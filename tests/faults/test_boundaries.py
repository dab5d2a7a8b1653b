"""Rows and places that go away under a job: cancelled while it is built, deleted, no connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.runtime import Runtime
from tests.child.direct import a_row, line_of, start_child
from tests.faults import slow_app
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import processes_with
from tests.helpers.stores import empty_tables, everything, make_tables, open_store, queue
from tests.helpers.waiting import eventually
from tests.host_acts import script


class TestWhileTheApplicationIsBuilt:
    @pytest.fixture
    def host_config(self) -> dict[str, object]:
        return {"JOBRUNNER_APP": "tests.faults.slow_app:create_app"}

    def test_a_cancel_runs_nothing(
        self,
        host_app: Flask,
        host_jobs: JobRunner,
        host_environment: HostEnvironment,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv(slow_app.FOLDER, str(tmp_path))
        (tmp_path / "wait").touch()
        acts = script(ledger=tmp_path / "ledger")
        job = host_jobs.start("host.script", acts, lock_key="k", wait=False).job
        eventually((tmp_path / "building").exists, timeout=60)

        assert host_jobs.cancel(job.uuid).status == "cancelled"
        assert host_jobs.find(lock_key="k", status="queued").jobs == []
        (tmp_path / "wait").unlink()
        eventually(lambda: processes_with(host_environment.mark) == [], timeout=60)

        ended = host_jobs.get(job.uuid)
        assert ended is not None
        assert (ended.status, ended.error_reason_code, ended.started_at) == (
            "cancelled",
            None,
            None,
        )
        assert not (tmp_path / "ledger").exists()
        runtime: Runtime = host_app.extensions["jobrunner"]
        assert runtime.attempts.of(job.id) == [], "nothing was claimed"
        assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"


def test_a_job_whose_row_is_gone_stops_by_itself(
    host_app: Flask, host_environment: HostEnvironment, tmp_path: Path
) -> None:
    """An operator deleted it, or a failover lost it."""
    acts = script(("wait_for_cancel",), ("print", "late"), ("return", 1), ledger=tmp_path / "l")
    envelope, _ = a_row(host_app, "host.script", acts)
    child = start_child(host_environment, envelope.job_uuid)
    child.send(line_of(envelope))
    eventually((tmp_path / "l").exists, timeout=60)

    runtime: Runtime = host_app.extensions["jobrunner"]
    empty_tables(runtime)

    assert child.end()[0] == 5
    assert all(rows == [] for rows in everything(runtime).values())
    assert len((tmp_path / "l").read_text().splitlines()) == 2


@contextmanager
def one_connection_at_a_time(url: str) -> Iterator[str]:
    """The URL of a database's user who may have one."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)

    def run(*statements: str) -> None:
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    run(
        "CREATE ROLE narrow LOGIN CONNECTION LIMIT 1",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO narrow",
        "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO narrow",
    )
    try:
        yield url.replace("//postgres@", "//narrow@")
    finally:
        run("DROP OWNED BY narrow", "DROP ROLE narrow")


@pytest.mark.postgresql
def test_a_server_without_a_free_connection_loses_nothing(postgresql_url: str) -> None:
    make_tables(postgresql_url)
    with one_connection_at_a_time(postgresql_url) as url:
        store = open_store(url)
        first = queue(store)
        with store.database.engine.connect() as busy:
            busy.execute(sa.select(1))
            with pytest.raises(DatabaseAway, match="could not be reached"):
                queue(store)
        second = queue(store)
        jobs = store.database.tables.jobs
        rows = store.database.rows(sa.select(jobs.c.job_uuid).order_by(jobs.c.id))
        assert [found["job_uuid"] for found in rows] == [first.uuid, second.uuid]
