"""Real servers, and jobs that outlive them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploying import served
from tests.deploying.servers import Gunicorn, free_port


@pytest.fixture
def host_config() -> dict[str, object]:
    """The jobs' processes build what the server serves."""
    return {
        "JOBRUNNER_APP": served.APP,
        "JOBRUNNER_HEARTBEAT": 1,
        "JOBRUNNER_LEASE": 5,
        # Longer than any test holds a start up.
        "JOBRUNNER_ACK_TIMEOUT": 40,
        "JOBRUNNER_CLAIM_WINDOW": 60,
    }


@pytest.fixture
def gunicorn(tmp_path: Path) -> Iterator[Gunicorn]:
    """A gunicorn that is to be configured first."""
    server = Gunicorn(tmp_path, free_port())
    yield server
    server.kill()


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As long as this file is missing, jobs' processes do not get as far as the application."""
    path = tmp_path / "gate"
    monkeypatch.setenv(served.GATE, str(path))
    return path
