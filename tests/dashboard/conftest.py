"""Hosts for the pages' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.dashboard.hosts import Host, MakeHost, host_factory, make_empty_database


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file to copy."""
    return make_empty_database(tmp_path_factory.mktemp("dashboard") / "empty.sqlite")


@pytest.fixture
def make_host(tmp_path: Path, empty_database: Path) -> Iterator[MakeHost]:
    """Builds hosts."""
    with host_factory(tmp_path, empty_database) as make:
        yield make


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host that lets everybody do everything."""
    return make_host()


@pytest.fixture
def app(host: Host) -> Flask:
    """The same, for pytest-flask."""
    return host.app
