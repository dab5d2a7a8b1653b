"""The launcher as tests of the caller use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.launchers import FakeLauncher
from tests.helpers.launches import Launching
from tests.helpers.shims import (
    end_if_ours,
    noted,
)
from tests.helpers.store_fixtures import (
    runtime,
    runtime_config,
    shared_mariadb,
    shared_postgresql,
    shared_sqlite,
    store,
)
from tests.helpers.waiting import eventually

__all__ = [
    "launching",
    "runtime",
    "runtime_config",
    "shared_mariadb",
    "shared_postgresql",
    "shared_sqlite",
    "store",
]


@pytest.fixture
def launching(tmp_path: Path) -> Iterator[Launching]:
    launching = Launching(tmp_path)
    yield launching
    for pid, _ in noted(tmp_path, "pids"):
        end_if_ours(pid, tmp_path)
    eventually(launching.idle, timeout=20, message="a shim is left")


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    """Takes the place of the launcher: no process is started, and the test says what happens."""
    fake = FakeLauncher()
    monkeypatch.setattr("flask_jobrunner.caller.handover.launcher", lambda: fake)
    return fake
