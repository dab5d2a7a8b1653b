"""Fixtures of whole paths with real processes: commands, and supervisors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.helpers.commands import Commands
from tests.helpers.hosts import HostEnvironment
from tests.helpers.supervising import Supervisors, supervisors


@pytest.fixture
def commands(host_app: Flask, host_environment: HostEnvironment) -> Commands:
    """Runs commands for the host application."""
    return Commands(host_app, host_environment)


@pytest.fixture
def pull(
    host_app: Flask, host_environment: HostEnvironment, tmp_path: Path
) -> Iterator[Supervisors]:
    """Starts supervisors of the host application."""
    with supervisors(host_app, host_environment, tmp_path) as found:
        yield found
