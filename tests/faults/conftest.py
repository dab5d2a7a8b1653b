"""Single faults that no other folder is about, with real files and processes; mostly on SQLite."""

from __future__ import annotations

import pytest


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One database is enough: these are about the file, the process or the machine."""
    return sqlite_url
