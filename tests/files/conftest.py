"""A host application on each of the three databases, with a folder for files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.store_fixtures import (
    runtime,
    shared_mariadb,
    shared_postgresql,
    shared_sqlite,
    store,
)

__all__ = ["runtime", "shared_mariadb", "shared_postgresql", "shared_sqlite", "store"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """JOBRUNNER_FILES_DIR."""
    return tmp_path / "files"


@pytest.fixture
def runtime_config(root: Path) -> dict[str, Any]:
    """Small limits, so that a test meets them."""
    return {
        "JOBRUNNER_FILES_DIR": str(root),
        "JOBRUNNER_FILE_MAX_BYTES": 1000,
        "JOBRUNNER_FILES_MAX": 3,
        "JOBRUNNER_FILE_RETENTION": 3600,
    }
