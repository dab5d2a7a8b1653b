"""The demo as an application under test: an SQLite file and an instance folder of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from flask import Flask

from demo_app import create_app
from demo_app.extensions import db
from demo_app.handlers import smoke


@pytest.fixture
def awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smoke job does not sleep; everybody else may."""
    monkeypatch.setattr(
        smoke, "time", SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic)
    )


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    """pytest-flask's `app`: the demo with its tables; a job's process would find the same."""
    monkeypatch.setenv("DEMO_INSTANCE", str(tmp_path / "instance"))
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'demo.sqlite'}")
    app = create_app({"TESTING": True})
    with app.app_context():
        db.create_all()
    yield app
    with app.app_context():
        for engine in db.engines.values():
            engine.dispose()
