"""`launch` runs a test twice, with the shim as a process and in a thread; `launch_here` once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flask_jobrunner.shim import deliver
from tests.helpers.shims import Launch, ProcessShim, ThreadShim, launching


@pytest.fixture(params=["process", "thread"])
def launch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Launch]:
    """Starts shims of both kinds."""
    with launching(tmp_path, ProcessShim if request.param == "process" else ThreadShim) as start:
        yield start


@pytest.fixture
def launch_process(tmp_path: Path) -> Iterator[Launch]:
    """Starts shims that are processes."""
    with launching(tmp_path, ProcessShim) as start:
        yield start


@pytest.fixture
def launch_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """Starts shims in threads, with the long waits of the delivery made short."""
    monkeypatch.setattr(deliver, "RECEIPT_WAIT", 0.3)
    monkeypatch.setattr(deliver, "SETTLE_PAUSES", (0.0, 0.05, 0.05))
    with launching(tmp_path, ThreadShim) as start:
        yield start
