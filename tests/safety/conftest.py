"""Hosts for the attacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.hosts import Host, MakeHost, host_factory, make_empty_database
from tests.safety.ground import make_tables, settings


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file to copy."""
    return make_empty_database(tmp_path_factory.mktemp("safety") / "empty.sqlite")


@pytest.fixture
def make_host(tmp_path: Path, empty_database: Path) -> Iterator[MakeHost]:
    """Builds hosts on SQLite."""
    with host_factory(tmp_path, empty_database) as make:
        yield make


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Host:
    """A host that lets everybody do everything."""
    return make_host(
        JOBRUNNER_FILES_DIR=str(tmp_path / "files"),
        JOBRUNNER_FORCE_STOP=True,
    )


@pytest.fixture
def any_host(make_host: MakeHost, tmp_path: Path, database_url: str) -> Host:
    """The same, once on each database."""
    made = make_host(**settings(tmp_path, database_url))
    make_tables(made)
    return made
