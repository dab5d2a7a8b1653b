"""`show`: everything about one job; first, in a sentence, where it stands."""

from __future__ import annotations

from typing import Any

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.inspect import error_of
from flask_jobrunner.model import words
from flask_jobrunner.model.records import Attempt, Event, OwnedJob
from flask_jobrunner.protocol.encoding import decode_json
from flask_jobrunner.runtime import Runtime

from .common import (
    find,
    job_argument,
    json_option,
    masked,
    now_of,
    ready_runtime,
    subcommand,
)
from .log_lines import text_printer
from .output import echo, echo_json
from .page import autopsy, current, page

LAST_LINES = 10


@click.command("show", short_help="Show one job.")
@job_argument()
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    job: int | str,
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
) -> None:
    """Show JOB: where it stands, what happened to it, how its process ended, its last lines.

    A job whose process is gone is settled first. Secrets in payload and result are masked.
    """
    runtime = ready_runtime()
    seen = find(runtime, job)
    events, attempts = runtime.events.of(seen.job.id), runtime.attempts.of(seen.job.id)
    if as_json:
        echo_json(masked(runtime, _as_dict(runtime, seen, events, attempts)))
        return
    for line in page(runtime, seen, events, attempts):
        echo(line)
    _last_lines(context, runtime, seen)


def _as_dict(
    runtime: Runtime, seen: OwnedJob, events: list[Event], attempts: list[Attempt]
) -> dict[str, Any]:
    return {
        "sentence": words.sentence(seen.job, now_of(runtime, seen), current(seen, attempts)),
        "job": seen.job.to_dict(),
        "result": decode_json(seen.result_json),
        "error": error_of(seen.job),
        "last_log_seq": seen.log_seq,
        "events": [event.to_dict() for event in events],
        "attempts": [
            {**attempt.to_dict(), "autopsy": autopsy(attempt) or None} for attempt in attempts
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
