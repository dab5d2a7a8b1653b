"""Commands on a host application; on SQLite, since what differs between databases lies below."""

from __future__ import annotations

import pytest
from flask import Flask

from tests.helpers.commands import Commands
from tests.helpers.hosts import HostEnvironment


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """The databases behave the same one floor below; the acceptance tests use all three."""
    return sqlite_url


@pytest.fixture
def commands(host_app: Flask, host_environment: HostEnvironment) -> Commands:
    """Runs commands for the host application."""
    return Commands(host_app, host_environment)
