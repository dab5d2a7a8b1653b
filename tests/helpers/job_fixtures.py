"""Fixtures of whole paths with real processes: commands, and supervisors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.helpers.commands import Commands
from tests.helpers.hosts import HostEnvironment
from tests.helpers.supervising import Supervisors, supervisors

ALSO_STANDBY = pytest.mark.parametrize(
    "pull",
    [pytest.param(0, id="new"), pytest.param(1, id="standby", marks=pytest.mark.faults)],
    indirect=True,
)
"""For a test whose jobs shall also be run by processes that stood by: `make test-faults`."""


@pytest.fixture
def commands(host_app: Flask, host_environment: HostEnvironment) -> Commands:
    """Runs commands for the host application."""
    return Commands(host_app, host_environment)


@pytest.fixture
def pull(
    host_app: Flask,
    host_environment: HostEnvironment,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Supervisors]:
    """Starts supervisors of the host application; its parameter says how many stand by."""
    standby = getattr(request, "param", 0)
    with supervisors(host_app, host_environment, tmp_path, standby) as found:
        yield found
