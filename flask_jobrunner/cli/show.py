"""`show`: everything about one job; first, in a sentence, where it stands."""

from __future__ import annotations

from typing import Any

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.inspect import error_of
from flask_jobrunner.model import words
from flask_jobrunner.model.ladder import ladder
from flask_jobrunner.model.records import Attempt, Event, OwnedJob
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.protocol.encoding import decode_json
from flask_jobrunner.recovery.stack import Stack, stack_of
from flask_jobrunner.runtime import Runtime

from .common import (
    acting,
    find,
    job_argument,
    json_option,
    masked,
    now_of,
    ready_runtime,
    subcommand,
)
from .log_lines import text_printer
from .output import echo, echo_json, safe
from .page import autopsy, current, page

LAST_LINES = 10


@click.command("show", short_help="Show one job.")
@job_argument()
@click.option(
    "--stack",
    is_flag=True,
    help="Ask its process, on its own machine, where it is now.",
)
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    job: int | str,
    stack: bool,  # noqa: FBT001 - click passes options as they are declared
    as_json: bool,  # noqa: FBT001
) -> None:
    """Show JOB: where it stands, what happened to it, how its process ended, its last lines.

    A job whose process is gone is settled first. Secrets in payload and result are masked.

    With --stack, the stacks of its threads at this moment: they are kept in its log, and who asked
    in its timeline. The job goes on.
    """
    runtime = ready_runtime()
    seen = find(runtime, job)
    asked = stack_of(runtime, seen, acting(runtime)) if stack else None
    events, attempts = runtime.events.of(seen.job.id), runtime.attempts.of(seen.job.id)
    if as_json:
        told = _as_dict(runtime, seen, events, attempts)
        echo_json(masked(runtime, told | ({"stack": asked.lines} if asked else {})))
    else:
        _print(context, runtime, seen, events, attempts, asked)
    if asked is not None and asked.why:
        click.echo(asked.why, err=True)
        context.exit(ExitCode.FAILED)


def _print(
    context: click.Context,
    runtime: Runtime,
    seen: OwnedJob,
    events: list[Event],
    attempts: list[Attempt],
    asked: Stack | None,
) -> None:
    for line in page(runtime, seen, events, attempts):
        echo(line)
    if asked is None:
        _last_lines(context, runtime, seen)
    elif asked.lines:
        echo()
        echo(click.style("Stack", bold=True))
        for line in asked.lines:
            echo(f"  {safe(line)}")


def _as_dict(
    runtime: Runtime, seen: OwnedJob, events: list[Event], attempts: list[Attempt]
) -> dict[str, Any]:
    return {
        "sentence": words.sentence(seen.job, now_of(runtime, seen), current(seen, attempts)),
        "job": seen.job.to_dict(),
        "result": decode_json(seen.result_json),
        "error": error_of(seen.job),
        "last_log_seq": seen.log_seq,
        "files": [stored.file.to_dict() for stored in runtime.files.of(seen.job.id)],
        "events": [event.to_dict() for event in events],
        "attempts": [
            {
                **attempt.to_dict(),
                "autopsy": autopsy(attempt, asked=bool(stopped)) or None,
                "stopped": stopped,
            }
            for attempt in attempts
            for stopped in [ladder(events, attempt)]
        ],
    }


def _last_lines(context: click.Context, runtime: Runtime, seen: OwnedJob) -> None:
    lines = runtime.logs.newest(seen.job.id, LAST_LINES)
    if not lines:
        return
    echo()
    hidden = seen.log_seq > len(lines)
    where = f", all of them with: {subcommand(context, f'logs {seen.job.id}')}" if hidden else ""
    echo(click.style("Last lines", bold=True) + where)
    show = text_printer(runtime, attempt=lines[0].attempt, indent="  ")
    for line in lines:
        show(line)
