"""The group `jobs`, which loads a command's module when it is called, and its exit codes."""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

import click
from flask.helpers import get_debug_flag

from flask_jobrunner.model.errors import (
    ConfigError,
    DatabaseAway,
    HandlerError,
    InvalidPayload,
    JobNotFound,
    JobRunnerError,
    LaunchUnknown,
    LockBusy,
    SchemaError,
    UnknownJobType,
)
from flask_jobrunner.model.statuses import ExitCode

from .output import remark, safe

# A job's process calls one of these: it should not pay for the others.
_COMMANDS = {
    "start": "start",
    "enqueue": "enqueue",
    "list": "listing",
    "show": "show",
    "logs": "logs",
    "cancel": "cancel",
    "requeue": "requeue",
    "work": "work",
    "sweep": "sweep",
    "prune": "prune",
    "doctor": "doctor",
    "run": "process:run",
    "run-trusted": "process:run_trusted",
    "settle": "process:settle",
}

_EXIT_CODES: tuple[tuple[type[JobRunnerError], int], ...] = (
    (InvalidPayload, ExitCode.USAGE),
    (UnknownJobType, ExitCode.USAGE),
    (JobNotFound, ExitCode.NOT_FOUND),
    (DatabaseAway, ExitCode.DATABASE),
    (LockBusy, ExitCode.DATABASE),
    (LaunchUnknown, ExitCode.DATABASE),
    (ConfigError, ExitCode.CONFIGURATION),
    (SchemaError, ExitCode.CONFIGURATION),
    (HandlerError, ExitCode.CONFIGURATION),
)


def fail(message: str, exit_code: int) -> NoReturn:
    """End the command with a sentence on standard error and this exit code."""
    remark(f"Error: {safe(message)}")
    raise click.exceptions.Exit(exit_code)


def exit_code_for(error: JobRunnerError) -> int:
    """What a command exits with when `error` ends it."""
    for kind, code in _EXIT_CODES:
        if isinstance(error, kind):
            return code
    return ExitCode.FAILED


class JobsGroup(click.Group):
    """Commands by name; an error of ours becomes one sentence and its exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands in the order of a job's life."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported now."""
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        found = getattr(importlib.import_module(f"{__package__}.{module}"), name or "command")
        return found if isinstance(found, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; with `--debug` an error of ours keeps its traceback."""
        try:
            return super().invoke(ctx)
        except JobRunnerError as error:
            if get_debug_flag():
                raise
            fail(str(error), exit_code_for(error))


@click.group(cls=JobsGroup, name="jobs", short_help="Start, watch and stop jobs.")
def jobs() -> None:
    """Start, watch and stop the application's jobs.

    JOB is a job's uuid or its id. Commands that print a table or a page take --json.
    """
