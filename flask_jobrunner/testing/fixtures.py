"""Fixtures for pytest, on the `app` fixture of the host (the one that pytest-flask asks for).

A host turns them on in its `conftest.py`: `pytest_plugins = ["flask_jobrunner.testing.fixtures"]`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask

from .fake_context import FakeContext
from .modes import RecordedJobs, job_mode

__all__ = ["inline_jobs", "job_context", "recorded_jobs"]


@pytest.fixture
def recorded_jobs(app: Flask) -> Iterator[RecordedJobs]:
    """JOBRUNNER_MODE `record` for this test: what is started stays queued, and is in this list."""
    with job_mode(app, "record") as recorded:
        yield recorded


@pytest.fixture
def inline_jobs(app: Flask) -> Iterator[RecordedJobs]:
    """JOBRUNNER_MODE `inline` for this test: what is started has ended when the call returns."""
    with job_mode(app, "inline") as recorded:
        yield recorded


@pytest.fixture
def job_context(app: Flask) -> FakeContext:
    """A context of `app` without a payload: set `job_context.payload`, and call a handler."""
    return FakeContext(app=app)
