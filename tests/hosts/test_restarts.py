"""The database server crashes, is away, or says nothing: jobs go on and end with the truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from flask_jobrunner.recovery.sweep import Sweeper
from tests.helpers import restarts
from tests.helpers.lossy import proxy_before
from tests.helpers.supervising import PATIENCE, Supervisors, in_status, ledger_of
from tests.helpers.waiting import eventually, stays
from tests.hosts.busy import payload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
AWAY = 5.0
"""Seconds: longer than the lease in the tests' configuration with its margin."""


@pytest.fixture
def crashing(request: pytest.FixtureRequest) -> Iterator[restarts.Server]:
    with restarts.server_that_crashes(request.param) as running:
        yield running


class TestCrashes:
    """A server of its own that crashes."""

    @pytest.fixture
    def database_url(self, crashing: restarts.Server) -> Iterator[str]:
        with crashing.fresh_database() as url:
            yield url

    @restarts.servers()
    def test_all_jobs_end_as_if_their_server_had_not_crashed(
        self,
        crashing: restarts.Server,
        host_jobs: JobRunner,
        pull: Supervisors,
        tmp_path: Path,
    ) -> None:
        made = restarts.begin(host_jobs, pull, tmp_path, 2)
        for seconds in (0.0, AWAY):
            restarts.crash_for(crashing, seconds)
            restarts.go_on_printing(host_jobs, made)
        restarts.all_end_as_they_would_have(host_jobs, pull, made, tmp_path)


@pytest.mark.parametrize(
    "database_url", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True
)
def test_a_job_goes_on_behind_a_network_that_drops_everything_for_longer_than_its_lease(
    host_jobs: JobRunner, pull: Supervisors, database_url: str, tmp_path: Path
) -> None:
    with proxy_before(database_url) as proxy:
        job = host_jobs.enqueue("busy", payload(tmp_path, "0"), lock_key="k").job
        pull.work(HOST_DATABASE_URL=proxy.url(database_url))
        eventually(lambda: ledger_of(tmp_path / "0"), timeout=PATIENCE)
        in_status(host_jobs, job, "running")
        proxy.silent = True
        proxy.cut_all()
        owned = pull.runtime.jobs.owned
        eventually(lambda: (owned(job.id).lease_until or 0) < owned(job.id).now, timeout=PATIENCE)  # type: ignore[union-attr]
        sweeper = Sweeper(pull.runtime)
        stays(lambda: sweeper.sweep().moved == {}, seconds=sweeper.patience + 1)
        proxy.silent = False
        proxy.cut_all()
        restarts.go_on_printing(host_jobs, [job])
        restarts.all_end_as_they_would_have(host_jobs, pull, [job], tmp_path)
