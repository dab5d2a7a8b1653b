"""What a job's process would find: asked in such a process, compared in the doctor's."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from flask import Flask

from flask_jobrunner.model.errors import HandlerError, JobRunnerError
from flask_jobrunner.repositories.health import HealthRepository
from flask_jobrunner.runtime import Runtime, current_runtime

MARK = "jobrunner-probe: "


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One process's view."""

    python: str
    folder: str
    address: str
    fingerprint: str | None
    digest: str
    job_types: list[str]
    unusable: dict[str, str]
    """Job types whose handler cannot be imported, and why."""


def answer(app: Flask) -> None:
    """Print the view of this process, marked, for whoever started it."""
    with app.app_context():
        click.echo(MARK + json.dumps(asdict(view(current_runtime()))))


def view(runtime: Runtime) -> Probe:
    """What this process sees."""
    return Probe(
        python=sys.executable,
        folder=str(Path.cwd()),
        address=HealthRepository(runtime.database).address(),
        fingerprint=_fingerprint(runtime),
        digest=runtime.config.digest,
        job_types=list(runtime.handlers),
        unusable=_unusable(runtime),
    )


def parse(output: str) -> Probe | None:
    """The view in a process's output, whatever else it printed."""
    for line in output.splitlines():
        if line.startswith(MARK):
            return Probe(**json.loads(line.removeprefix(MARK)))
    return None


def _fingerprint(runtime: Runtime) -> str | None:
    try:
        return runtime.meta.ensure().fingerprint
    except JobRunnerError:
        return None


def _unusable(runtime: Runtime) -> dict[str, str]:
    unusable = {}
    for job_type in runtime.handlers:
        try:
            runtime.handlers.resolve(job_type)
        except HandlerError as error:
            unusable[job_type] = str(error)
    return unusable
