"""The launcher as tests of the caller use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.launches import Launching
from tests.helpers.shims import (
    end_if_ours,
    noted,
)
from tests.helpers.waiting import eventually


@pytest.fixture
def launching(tmp_path: Path) -> Iterator[Launching]:
    launching = Launching(tmp_path)
    yield launching
    for pid, _ in noted(tmp_path, "pids"):
        end_if_ours(pid, tmp_path)
    eventually(launching.idle, timeout=20, message="a shim is left")
