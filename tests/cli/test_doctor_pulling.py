"""What the doctor says about the queue and those who take from it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.protocol import identity
from flask_jobrunner.repositories.supervisors import NewSupervisor
from flask_jobrunner.runtime import Runtime
from tests.helpers.commands import Commands


@pytest.fixture
def host_config() -> dict[str, object]:
    """A lease that outlasts whatever the commands take on a busy machine."""
    return {"JOBRUNNER_LEASE": 600}


def add_supervisor(app: Flask, uuid: str, **values: Any) -> None:
    runtime: Runtime = app.extensions["jobrunner"]
    defaults: dict[str, Any] = {
        "process": identity.this_process(),
        "types": (),
        "slots": 2,
        "standby": 0,
        "revision": None,
        "version": "1",
    }
    runtime.supervisors.add(NewSupervisor(uuid=uuid, **defaults | values))


def silence(app: Flask, uuid: str) -> None:
    runtime: Runtime = app.extensions["jobrunner"]
    table = runtime.database.tables.supervisors
    statement = sa.update(table).where(table.c.supervisor_uuid == uuid).values(heartbeat_at=1)
    runtime.database.run(lambda connection: connection.execute(statement))


def of(commands: Commands, *checks: str) -> list[tuple[str, str]]:
    """(level, message) of the findings of these checks."""
    found = commands("doctor", "--json").json()["findings"]
    return [(one["level"], one["message"]) for one in found if one["check"] in checks]


def test_without_a_queue_no_supervisor_is_needed(commands: Commands) -> None:
    assert of(commands, "Supervisors", "Queue") == [
        ("ok", "None is running. Only jobs of the queue need one.")
    ]


def test_jobs_that_nobody_takes(commands: Commands, host_app: Flask, host_jobs: JobRunner) -> None:
    for _ in range(2):
        host_jobs.enqueue("host.nothing")
    host_jobs.enqueue("host.class")
    ((level, message),) = of(commands, "Supervisors", "Queue")
    assert level == "warning"
    assert "2 jobs of host.nothing" in message
    assert "1 job of host.class" in message
    assert message.count("No supervisor is running") == 1

    add_supervisor(host_app, "one", types=("host.n*",))
    supervisor, queue = of(commands, "Supervisors", "Queue")
    assert supervisor[0] == "ok"
    assert supervisor[1].endswith("2 slots for host.n*.")
    assert "takes jobs of the type host.class" in queue[1]


def test_a_supervisor_that_is_silent(commands: Commands, host_app: Flask) -> None:
    add_supervisor(host_app, "gone")
    silence(host_app, "gone")
    (level, message), (_, none) = of(commands, "Supervisors")

    assert level == "warning"
    assert "has given no sign of life for" in message
    assert none.startswith("None is running")


def test_what_waited_too_long_and_nobody_ended(
    commands: Commands, host_app: Flask, host_jobs: JobRunner
) -> None:
    job = host_jobs.enqueue("host.nothing").job
    runtime: Runtime = host_app.extensions["jobrunner"]
    table = runtime.database.tables.jobs
    statement = sa.update(table).where(table.c.id == job.id).values(queue_deadline=1)
    runtime.database.run(lambda connection: connection.execute(statement))

    assert of(commands, "Sweeping") == [("warning", "1 active job overdue, and nobody looks.")]
