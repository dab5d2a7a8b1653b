"""An old backup is restored under a running job: what it does not know of cannot go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import Runtime
from tests.helpers.processes import is_running
from tests.helpers.stores import everything, owned
from tests.helpers.supervising import PATIENCE, ledger_of
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_HEARTBEAT": 0.5, "JOBRUNNER_LEASE": 3}


def restore(runtime: Runtime, backup: dict[str, list[dict[str, Any]]]) -> None:
    """All rows as they were, in one transaction."""
    tables = runtime.database.tables.all()

    def unit(connection: sa.Connection) -> None:
        for table in reversed(tables):
            connection.execute(table.delete())
        for table in tables:
            if backup[table.name]:
                connection.execute(table.insert(), backup[table.name])

    runtime.database.run(unit)


def test_an_attempt_that_the_backup_does_not_know_ends_itself(
    host_app: Flask, host_jobs: JobRunner, tmp_path: Path
) -> None:
    runtime: Runtime = host_app.extensions["jobrunner"]
    ledger, again = tmp_path / "ledger", tmp_path / "again"
    acts = script(
        ("raise_unless_file", str(again)),
        ("wait_for_file", str(tmp_path / "never")),
        ledger=ledger,
    )
    job = host_jobs.start("host.script", acts, lock_key="k").job
    assert host_jobs.wait(job.uuid, PATIENCE).error_reason_code == "handler_raised"
    eventually(lambda: runtime.attempts.of(job.id)[0].exit_code is not None, timeout=PATIENCE)
    backup = everything(runtime)

    again.touch()
    assert host_jobs.requeue(job.uuid).ok
    eventually(lambda: len(ledger_of(ledger)) == 3, timeout=PATIENCE)
    worker = owned(runtime, job.id).worker.pid
    assert worker is not None
    restore(runtime, backup)

    eventually(lambda: not is_running(worker), timeout=PATIENCE)
    now = host_jobs.get(job.uuid)
    assert now is not None
    assert (now.status, now.error_reason_code, now.attempt) == ("failed", "handler_raised", 1)
    assert everything(runtime) == backup
    assert runtime.jobs.holder("k") is None
    starts = [line for line in ledger_of(ledger).elements() if line.startswith("start")]
    assert [line.split()[1] for line in starts] == ["1", "2"]
