"""`jobs.enqueue`: checked and committed like a start, or joined to the host's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import (
    ConfigError,
    InvalidPayload,
    Job,
    JobRunner,
    UncommittedChanges,
    UnknownJobType,
    job_created,
)
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.runtime import Runtime, building
from tests.host_app import Entry, db


def owned(app: Flask, job: Job) -> OwnedJob:
    runtime: Runtime = app.extensions["jobrunner"]
    found = runtime.jobs.owned(job.id)
    assert found is not None
    return found


@contextmanager
def hearing() -> Iterator[list[str]]:
    """The uuids that `job_created` told of."""
    heard: list[str] = []

    def receive(app: Flask, job: Job, **_: Any) -> None:
        heard.append(job.uuid)

    with job_created.connected_to(receive):
        yield heard


def test_a_row_waits_for_a_supervisor(host_app: Flask, host_jobs: JobRunner) -> None:
    with hearing() as heard:
        result = host_jobs.enqueue(
            "host.nothing",
            {"a": 1},
            lock_key="k",
            title="A title",
            owner="ann",
            reference="r:1",
            actor="bob",
            priority=-3,
        )

    assert (result.status, result.ok, result.reason_code) == ("queued", True, None)
    assert result.to_dict()["job"]["priority"] == -3
    row = owned(host_app, result.job)
    assert (row.claim_mode, row.has_credential, row.claim_deadline) == ("trusted", False, None)
    told = row.job
    assert (told.title, told.owner, told.reference, told.actor) == ("A title", "ann", "r:1", "bob")
    assert (told.payload, told.lock_key, told.not_before) == ({"a": 1}, "k", None)
    assert heard == [result.job.uuid]


def test_pushed_and_pulled_jobs_share_their_locks(host_jobs: JobRunner) -> None:
    first = host_jobs.enqueue("host.nothing", lock_key="k")
    again = host_jobs.enqueue("host.nothing", lock_key="k")
    pushed = host_jobs.start("host.nothing", lock_key="k")

    assert (again.status, again.ok, again.job.uuid) == ("already_active", False, first.job.uuid)
    assert (pushed.status, pushed.job.uuid) == ("already_active", first.job.uuid)
    assert again.message == f"Job {first.job.uuid} holds this lock key; it is queued."


def test_a_holder_that_waited_too_long_is_settled_first(
    host_app: Flask, host_jobs: JobRunner
) -> None:
    first = host_jobs.enqueue("host.nothing", lock_key="k").job
    runtime: Runtime = host_app.extensions["jobrunner"]
    table = runtime.database.tables.jobs
    late = sa.update(table).where(table.c.id == first.id).values(queue_deadline=1)
    runtime.database.run(lambda connection: connection.execute(late))

    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"priority": 1.5}, InvalidPayload, "priority must be a whole number"),
        ({"priority": True}, InvalidPayload, "priority must be a whole number"),
        ({"priority": 10**10}, InvalidPayload, "priority must be a whole number"),
        ({"not_before": datetime(2037, 1, 1)}, InvalidPayload, "with a time zone"),  # noqa: DTZ001
        ({"not_before": 5}, InvalidPayload, "with a time zone"),
        ({"payload": [1]}, InvalidPayload, "must be a dict"),
        ({"lock_key": "k" * 200}, InvalidPayload, "at most 191 bytes"),
        ({"job_type": "none.such"}, UnknownJobType, "host.nothing"),
        ({"job_type": "host.validated", "payload": {"count": "x"}}, InvalidPayload, "refused"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_before_a_row(
    host_jobs: JobRunner, arguments: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        host_jobs.enqueue(**{"job_type": "host.nothing"} | arguments)
    assert host_jobs.find().jobs == []


def test_a_time_in_any_zone_is_the_same_moment(host_jobs: JobRunner) -> None:
    at = datetime(2037, 1, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=-7)))
    job = host_jobs.enqueue("host.nothing", not_before=at).job

    assert job.not_before == at
    assert job.not_before.tzinfo is UTC


def test_uncommitted_changes_are_refused(host_jobs: JobRunner) -> None:
    db.session.add(Entry(name="a"))
    with pytest.raises(UncommittedChanges, match="Entry"):
        host_jobs.enqueue("host.nothing")
    assert host_jobs.find().jobs == []


def test_in_the_hosts_transaction_it_is_there_after_the_commit(
    host_app: Flask, host_jobs: JobRunner
) -> None:
    with hearing() as heard:
        db.session.add(Entry(name="a"))
        result = host_jobs.enqueue("host.nothing", lock_key="k", session=db.session)
        assert (result.status, result.job.status) == ("queued", "queued")
        assert host_jobs.get(result.job.uuid) is None
        assert heard == []
        db.session.commit()

    assert heard == [result.job.uuid]
    row = owned(host_app, result.job)
    assert (row.claim_mode, row.claim_deadline, row.has_credential) == ("trusted", None, False)
    assert host_jobs.enqueue("host.nothing", lock_key="k", session=db.session).status == (
        "already_active"
    )


def test_a_rollback_leaves_nothing(host_jobs: JobRunner) -> None:
    with hearing() as heard:
        host_jobs.enqueue("host.nothing", lock_key="k", session=db.session)
        db.session.rollback()

    assert heard == []
    assert host_jobs.find().jobs == []
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"


def test_a_database_in_memory_is_refused() -> None:
    from flask_sqlalchemy import SQLAlchemy

    app = Flask("memory")
    app.config.update(SQLALCHEMY_DATABASE_URI="sqlite://")
    runner = JobRunner()
    runner.handler("a.b")(lambda ctx: None)
    runner.init_app(app, SQLAlchemy(app))
    with app.app_context(), pytest.raises(ConfigError, match="in memory"):
        runner.enqueue("a.b")


# -- requeue ------------------------------------------------------------------------------------


def test_a_pulled_job_goes_back_into_the_queue(host_app: Flask, host_jobs: JobRunner) -> None:
    job = host_jobs.enqueue("host.nothing", lock_key="k", priority=4).job
    host_jobs.cancel(job.uuid)
    result = host_jobs.requeue(job.uuid, actor="ann", delay=timedelta(minutes=5))

    assert (result.status, result.ok) == ("queued", True)
    assert result.job is not None
    assert (result.job.attempt, result.job.priority, result.job.status) == (2, 4, "queued")
    assert result.job.not_before is not None
    assert result.job.not_before - result.job.queued_at == timedelta(minutes=5)
    assert owned(host_app, result.job).claim_mode == "trusted"
    assert host_jobs.requeue(job.uuid).status == "not_requeueable"


@pytest.mark.parametrize("delay", [-1, "5", True, float("nan"), 10**9], ids=repr)
def test_a_delay_is_checked(host_jobs: JobRunner, delay: Any) -> None:
    job = host_jobs.enqueue("host.nothing").job
    host_jobs.cancel(job.uuid)
    with pytest.raises(InvalidPayload, match="delay must be"):
        host_jobs.requeue(job.uuid, delay=delay)


def test_a_pushed_job_is_not_delayed(host_jobs: JobRunner) -> None:
    job = host_jobs.run_inline("host.nothing").job
    assert job is not None
    with pytest.raises(InvalidPayload, match="nobody is there to launch it later"):
        host_jobs.requeue(job.uuid, delay=5)


def test_the_lock_is_taken_again_or_not_at_all(host_jobs: JobRunner) -> None:
    first = host_jobs.enqueue("host.nothing", lock_key="k").job
    host_jobs.cancel(first.uuid)
    second = host_jobs.enqueue("host.nothing", lock_key="k").job
    result = host_jobs.requeue(first.uuid)

    assert result.status == "already_active"
    assert result.job is not None
    assert result.job.uuid == second.uuid


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_REVISION": "r2"}])
def test_a_job_of_another_revision_is_admitted_under_this_one(
    host_app: Flask, host_jobs: JobRunner
) -> None:
    old = host_jobs.enqueue("host.nothing").job
    runtime: Runtime = host_app.extensions["jobrunner"]
    assert host_jobs.requeue(old.uuid).status == "not_requeueable"
    table = runtime.database.tables.jobs
    made = sa.update(table).where(table.c.id == old.id).values(revision="r1")
    runtime.database.run(lambda connection: connection.execute(made))

    result = host_jobs.requeue(old.uuid)
    assert result.status == "queued"
    row = owned(host_app, old)
    assert (row.revision, row.job.attempt) == ("r2", 2)


def test_a_factory_that_enqueues_does_not_multiply_jobs(host_jobs: JobRunner) -> None:
    """Each job's process builds the application, and would put the next job into the queue."""
    with building(), pytest.raises(ConfigError, match="would never end"):
        host_jobs.enqueue("host.nothing")
    assert host_jobs.find().jobs == ()

    first = host_jobs.enqueue("host.nothing", lock_key="nightly").job
    with building():
        again = host_jobs.enqueue("host.nothing", lock_key="nightly")
    assert (again.status, again.job) == ("already_active", first)
