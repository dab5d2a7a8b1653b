"""`store`: each of the three databases, with our tables and no rows."""

from __future__ import annotations

import pytest

from flask_jobrunner.repositories import database
from tests.helpers.store_fixtures import shared_mariadb, shared_postgresql, shared_sqlite, store

__all__ = ["shared_mariadb", "shared_postgresql", "shared_sqlite", "store"]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a lock here waits until it is free, however long a busy machine takes."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 60.0)
    monkeypatch.setattr(database, "STATEMENT_TIMEOUT", 120.0)
