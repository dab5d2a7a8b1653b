"""Several hosts, clocks that jump, and databases that go away: real processes throughout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.hosts import HostEnvironment
from tests.helpers.job_fixtures import commands, pull
from tests.helpers.machines import Machines
from tests.helpers.machines import machines as make_machines
from tests.helpers.supervising import QUICK

__all__ = ["commands", "pull"]
HANDLERS = {"late.import": "tests.hosts.late:handle", "busy": "tests.hosts.busy:handle"}


@pytest.fixture
def host_config() -> dict[str, object]:
    # Shorter than any step of a clock, longer than any test.
    return {**QUICK, "JOBRUNNER_HANDLERS": HANDLERS, "JOBRUNNER_RUN_BUDGET": 1800}


@pytest.fixture
def machines(host_environment: HostEnvironment, tmp_path: Path) -> Iterator[Machines]:
    """Makes other hosts."""
    with make_machines(host_environment, tmp_path) as make:
        yield make
