"""Fixtures that every floor uses: the three databases, and Chromium."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flask_jobrunner.runtime import set_process_role
from tests.helpers import requirements
from tests.servers import binaries, mariadb, postgresql

if TYPE_CHECKING:
    from flask import Flask
    from playwright.sync_api import Browser

    from flask_jobrunner import JobRunner
    from tests.helpers.browser import Pages, WatchedPage
    from tests.helpers.hosts import HostEnvironment

DATABASES = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.postgresql),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
)


@pytest.fixture(autouse=True)
def role_of_tests() -> Iterator[None]:
    """A command that runs in this process says what the process is for: for that test only."""
    yield
    set_process_role("web")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.PostgreSQL]:
    """This run's PostgreSQL server, started by the first test that asks."""
    if postgresql.programs() is None:
        requirements.missing("PostgreSQL", postgresql.INSTALL)
    running = postgresql.start()
    yield running
    running.server.stop()


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[mariadb.MariaDB]:
    """This run's MariaDB server, started by the first test that asks."""
    if mariadb.programs() is None:
        requirements.missing("MariaDB", mariadb.INSTALL)
    running = mariadb.start()
    yield running
    running.server.stop()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'app.sqlite'}"


@pytest.fixture
def postgresql_url(postgresql_server: postgresql.PostgreSQL) -> Iterator[str]:
    """The URL of a new, empty PostgreSQL database."""
    with postgresql_server.fresh_database() as url:
        yield url


@pytest.fixture
def mariadb_url(mariadb_server: mariadb.MariaDB) -> Iterator[str]:
    """The URL of a new, empty MariaDB database."""
    with mariadb_server.fresh_database() as url:
        yield url


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """A new, empty database: the test that asks runs once on each of the three."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def host_config() -> dict[str, object]:
    """Configuration of the host application; a test overrides it by parametrising the name."""
    return {}


@pytest.fixture
def host_environment(
    database_url: str,
    tmp_path: Path,
    host_config: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[HostEnvironment]:
    """The environment from which this process and its children build the host application."""
    from tests.helpers import hosts

    environment = hosts.host_environment(monkeypatch, database_url, tmp_path, **host_config)
    yield environment
    hosts.end_processes(environment.mark)


@pytest.fixture
def host_app(host_environment: HostEnvironment) -> Iterator[Flask]:
    """The host application with its tables, in an app context; once on each database."""
    from tests.helpers import hosts

    with hosts.running_host() as app:
        yield app


@pytest.fixture
def host_jobs(host_app: Flask) -> JobRunner:
    """The host application's `jobs`, in its app context."""
    from tests.host_app import jobs

    return jobs


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window, started by the first test that asks."""
    # Imported here, so that the unit tests run where only their own tools are installed.
    from tests.helpers import browser as chromium

    if binaries.find("chromium") is None:
        requirements.missing("Chromium", chromium.INSTALL)
    with chromium.running_browser() as running:
        yield running


@pytest.fixture
def browser_pages(browser: Browser) -> Iterator[Pages]:
    """Opens pages of any size, colour scheme, with or without JavaScript."""
    from tests.helpers.browser import Pages

    with contextlib.ExitStack() as close_later:
        yield Pages(browser, close_later)


@pytest.fixture
def browser_page(browser_pages: Pages) -> WatchedPage:
    """A desktop page that keeps console errors and policy violations: `.page` drives it."""
    return browser_pages.open()


@pytest.fixture
def browser_page_without_javascript(browser_pages: Pages) -> WatchedPage:
    """The same page with JavaScript off."""
    return browser_pages.open(javascript=False)
