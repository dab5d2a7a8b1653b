"""`flask jobs prune`."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import Runtime
from tests.helpers.commands import Commands


def old_job(app: Flask, jobs: JobRunner) -> str:
    """A job that ended ten days ago."""
    job = jobs.run_inline("host.nothing").job
    assert job is not None
    uuid = job.uuid
    runtime: Runtime = app.extensions["jobrunner"]
    table = runtime.database.tables.jobs
    then = runtime.database.clock() - 10 * 86400 * 1_000_000
    earlier = sa.update(table).where(table.c.job_uuid == uuid).values(finished_at=then)
    runtime.database.run(lambda connection: connection.execute(earlier).rowcount)
    return uuid


def test_old_jobs_are_counted_then_removed(
    commands: Commands, host_app: Flask, host_jobs: JobRunner
) -> None:
    uuid = old_job(host_app, host_jobs)
    host_jobs.run_inline("host.nothing")
    lines = len(host_jobs.status(uuid).logs)

    planned = commands("prune", "--jobs", "7d", "--dry-run")
    assert planned.exit_code == 0
    assert planned.out == f"Would remove 1 job and {lines} lines (jobs older than 7 d).\n"
    assert host_jobs.get(uuid) is not None

    told = commands("prune", "--jobs", "1w", "--json").json()
    assert (told["jobs"], told["lines"], told["kept"]) == (1, lines, [])
    assert host_jobs.get(uuid) is None
    assert len(host_jobs.find().jobs) == 1


def test_lines_go_and_the_job_says_so(
    commands: Commands, host_app: Flask, host_jobs: JobRunner
) -> None:
    uuid = old_job(host_app, host_jobs)

    assert commands("prune", "--lines", "86400").exit_code == 0
    assert host_jobs.status(uuid).logs == []
    with host_app.app_context():
        page = host_app.test_client().get(f"/jobs/{uuid}")
    assert "lines of this log were removed" in page.text


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_JOB_RETENTION": 86400}])
def test_the_setting_is_the_default(
    commands: Commands, host_app: Flask, host_jobs: JobRunner, host_config: object
) -> None:
    uuid = old_job(host_app, host_jobs)

    assert commands("prune").exit_code == 0
    assert host_jobs.get(uuid) is None


def test_without_any_age_nothing_is_removed(commands: Commands) -> None:
    answer = commands("prune")

    assert answer.exit_code == 78
    assert "JOBRUNNER_JOB_RETENTION" in answer.err


@pytest.mark.parametrize("age", ["0", "-1d", "soon", "1y", "99999999w"])
def test_an_age_that_is_none_is_refused(commands: Commands, age: str) -> None:
    answer = commands("prune", "--jobs", age)

    assert answer.exit_code == 2
    assert "90d" in answer.err


def test_an_age_of_nothing_is_refused_with_the_reason(commands: Commands) -> None:
    answer = commands("prune", "--jobs", "0")

    assert answer.exit_code == 2
    assert "An age is more than 0" in answer.err
