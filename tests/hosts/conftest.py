"""Several hosts, clocks that jump, and databases that go away: real processes throughout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.helpers.commands import Commands
from tests.helpers.hosts import HostEnvironment
from tests.helpers.machines import Machines
from tests.helpers.machines import machines as make_machines
from tests.helpers.supervising import QUICK, Supervisors, supervisors

HANDLERS = {"late.import": "tests.hosts.late:handle", "busy": "tests.hosts.busy:handle"}


@pytest.fixture
def host_config() -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_HANDLERS": HANDLERS}


@pytest.fixture
def commands(host_app: Flask, host_environment: HostEnvironment) -> Commands:
    """Runs commands for the host application."""
    return Commands(host_app, host_environment)


@pytest.fixture
def machines(host_environment: HostEnvironment, tmp_path: Path) -> Iterator[Machines]:
    """Makes other hosts."""
    with make_machines(host_environment, tmp_path) as make:
        yield make


@pytest.fixture
def pull(
    host_app: Flask, host_environment: HostEnvironment, tmp_path: Path
) -> Iterator[Supervisors]:
    """Starts supervisors of the host application."""
    with supervisors(host_app, host_environment, tmp_path) as found:
        yield found
