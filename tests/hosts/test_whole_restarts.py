"""Twenty jobs on a database server that crashes, and that is away for twenty seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from tests.helpers import restarts
from tests.helpers.supervising import Supervisors

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
EACH = 10
AWAY = 20.0


@pytest.fixture
def crashing(request: pytest.FixtureRequest) -> Iterator[restarts.Server]:
    with restarts.server_that_crashes(request.param) as running:
        yield running


@pytest.fixture
def database_url(crashing: restarts.Server) -> Iterator[str]:
    with crashing.fresh_database() as url:
        yield url


@restarts.servers()
@pytest.mark.parametrize("seconds", [0.0, AWAY], ids=["at once", "after 20 s"])
def test_twenty_jobs_end_as_if_their_server_had_not_crashed(
    crashing: restarts.Server,
    host_jobs: JobRunner,
    pull: Supervisors,
    tmp_path: Path,
    seconds: float,
) -> None:
    made = restarts.begin(host_jobs, pull, tmp_path, EACH)
    restarts.crash_for(crashing, seconds)
    restarts.go_on_printing(host_jobs, made)
    restarts.all_end_as_they_would_have(host_jobs, pull, made, tmp_path)
