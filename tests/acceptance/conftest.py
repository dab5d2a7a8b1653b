"""Whole paths, with real processes, on each of the three databases."""

from __future__ import annotations

import pytest
from flask import Flask

from tests.helpers.commands import Commands
from tests.helpers.hosts import HostEnvironment


@pytest.fixture
def commands(host_app: Flask, host_environment: HostEnvironment) -> Commands:
    """Runs commands for the host application."""
    return Commands(host_app, host_environment)
