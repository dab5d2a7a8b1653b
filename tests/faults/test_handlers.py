"""Handlers that break their own application's session, or meet their own lock key."""

from __future__ import annotations

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.helpers.stores import assert_sound

HANDLERS = ("break_the_session", "start_the_same")


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """Each of the three databases where a test asks for them, else SQLite."""
    url: str = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")
    return url


@pytest.fixture
def host_config() -> dict[str, object]:
    return {
        "JOBRUNNER_HANDLERS": {f"faults.{name}": f"tests.faults.acts:{name}" for name in HANDLERS}
    }


EACH_DATABASE = pytest.mark.parametrize(
    "database_url",
    [
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ],
    indirect=True,
)


@EACH_DATABASE
def test_a_broken_session_of_the_application_changes_nothing(
    host_app: Flask, host_jobs: JobRunner
) -> None:
    started = host_jobs.start("faults.break_the_session", lock_key="k")
    job = host_jobs.wait(started.job.uuid, 60)

    assert (job.status, job.error_reason_code) == ("succeeded", None)
    assert host_jobs.status(job.uuid).result == 5
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"
    assert_sound(host_app.extensions["jobrunner"])


@EACH_DATABASE
def test_a_handler_meets_its_own_lock_key(host_app: Flask, host_jobs: JobRunner) -> None:
    started = host_jobs.start("faults.start_the_same", {"key": "k"}, lock_key="k")
    job = host_jobs.wait(started.job.uuid, 60)

    assert (job.status, job.error_reason_code) == ("succeeded", None)
    assert host_jobs.status(job.uuid).result == {
        "status": ["already_active", "already_active"],
        "job": [job.uuid, job.uuid],
    }
    assert [found.uuid for found in host_jobs.find().jobs] == [job.uuid]
    assert_sound(host_app.extensions["jobrunner"])
