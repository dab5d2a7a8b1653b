"""The host application, set up in every way in which hosts set up their tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import DATABASES
from tests.testing.hosts import EVERY, SHARED, Shop
from tests.testing.spy import nothing_starts

_MEMORY = {"memory", "memory with events"}


def _ways(names: dict[str, object]) -> list[object]:
    """Each way on each database on which it means anything."""
    ways: list[object] = []
    for name in names:
        for database in DATABASES if name not in _MEMORY else DATABASES[:1]:
            kind = database if isinstance(database, str) else str(database.values[0])
            marks = () if isinstance(database, str) else database.marks
            ways.append(pytest.param((name, kind), marks=marks, id=f"{name}-{kind}"))
    return ways


@pytest.fixture
def mode() -> str:
    """JOBRUNNER_MODE of `shop`; a test parametrises it."""
    return "record"


@pytest.fixture(params=_ways(EVERY))
def shop(request: pytest.FixtureRequest, mode: str) -> Iterator[Shop]:
    """The host application in the middle of a test of its own."""
    name, kind = request.param
    with EVERY[name](request.getfixturevalue(f"{kind}_url"), mode) as made, nothing_starts():
        yield made


@pytest.fixture(params=_ways(SHARED))
def shared_shop(request: pytest.FixtureRequest, mode: str) -> Iterator[Shop]:
    """The same, only where jobs and sessions share a connection."""
    name, kind = request.param
    with SHARED[name](request.getfixturevalue(f"{kind}_url"), mode) as made, nothing_starts():
        yield made


@pytest.fixture(params=["memory", "engines"])
def any_shop(request: pytest.FixtureRequest, sqlite_url: str, mode: str) -> Iterator[Shop]:
    """The same for what does not depend on where the data is."""
    with EVERY[request.param](sqlite_url, mode) as made, nothing_starts():
        yield made
