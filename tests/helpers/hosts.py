"""Building the tests' host application, here and in the processes that a test starts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import host_app
from tests.helpers.processes import processes_with
from tests.helpers.waiting import eventually

if TYPE_CHECKING:
    import pytest
    from flask import Flask

ROOT = Path(__file__).parents[2]
MARK = "HOST_TEST"


@dataclass(frozen=True)
class HostEnvironment:
    """What a process needs to build this test's host application."""

    environ: Mapping[str, str]
    mark: str
    """In the environment of every process of this test, and of no other."""

    def command(self, *arguments: str) -> list[str]:
        """The argv of `flask_jobrunner …` for this application."""
        return [sys.executable, "-m", "flask_jobrunner", "--app", host_app.APP, *arguments]


def host_environment(
    patch: pytest.MonkeyPatch, database_url: str, folder: Path, **config: Any
) -> HostEnvironment:
    """Set the environment, here and thereby in every process started from here.

    `config` is the application's configuration; reports are spooled below `folder`.
    """
    mark = f"{MARK}-{uuid.uuid4().hex}"
    settings = {"JOBRUNNER_SPOOL_DIR": str(folder / "spool"), **config}
    patch.setenv(host_app.DATABASE, database_url)
    patch.setenv(host_app.CONFIG, json.dumps(settings))
    patch.setenv(host_app.INSTANCE, str(folder / "instance"))
    patch.setenv(MARK, mark)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    patch.setenv("PYTHONPATH", path)
    return HostEnvironment(dict(os.environ), mark)


@contextlib.contextmanager
def running_host() -> Iterator[Flask]:
    """The application on the environment's database, with its tables, in an app context."""
    app = host_app.create_app()
    with app.app_context():
        host_app.db.create_all()
        try:
            yield app
        finally:
            host_app.db.session.remove()
            for engine in host_app.db.engines.values():
                engine.dispose()
            app.extensions["jobrunner"].database.engine.dispose()


def end_processes(mark: str) -> None:
    """End what a test left running: only processes with its own mark."""
    for seen in processes_with(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(seen.pid, signal.SIGKILL)
    eventually(lambda: not processes_with(mark), message=lambda: f"{processes_with(mark)}")
