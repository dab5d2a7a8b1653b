"""`enqueue`: a job for the supervisors, from the command line or a timer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.enqueue import enqueue
from flask_jobrunner.model.results import EnqueueResult
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.model.words import nobody_takes
from flask_jobrunner.runtime import Runtime

from .common import acting, json_option, masked, moment, ready_runtime, wait_option
from .new_job import new_job_options, read_payload
from .output import echo, echo_json, one_line, remark, safe
from .watch import watch

LONGEST_DELAY = 366 * 86400.0


def _read_time(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise click.BadParameter(
            f"{value!r} is no time with a zone; write it as in 2026-11-29T18:00:00+01:00.",
            context,
            parameter,
        )
    return found


@click.command("enqueue", short_help="Put a job into the queue.")
@click.argument("job_type", metavar="TYPE")
@new_job_options
@click.option("--priority", type=int, default=0, help="The highest goes first. Default: 0.")
@click.option(
    "--not-before", metavar="TIME", callback=_read_time, help="Begin at this time or later."
)
@click.option(
    "--delay",
    type=click.FloatRange(0, LONGEST_DELAY),
    metavar="SECONDS",
    help="Begin after so many seconds or later.",
)
@wait_option("Show the log to the end, at most SECONDS, and exit by the job's status.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    /,
    job_type: str,
    payload: str | None,
    priority: int,
    not_before: datetime | None,
    delay: float | None,
    wait: float | None,
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
    **options: Any,
) -> None:
    """Put a job of TYPE into the queue, from which `work` takes it.

    Exits 0 when the job was taken on, 5 when an active job holds the lock key.
    """
    if delay is not None and not_before is not None:
        raise click.UsageError("Give either --not-before or --delay.")
    runtime = ready_runtime()
    result = enqueue(
        runtime,
        job_type,
        read_payload(payload),
        actor=acting(runtime),
        priority=priority,
        not_before=not_before if delay is None else datetime.now(UTC) + timedelta(seconds=delay),
        **options,
    )
    if as_json and (wait is None or not result.ok):
        echo_json(masked(runtime, result.to_dict()))
    elif not as_json:
        _tell(runtime, result)
    if not result.ok:
        context.exit(ExitCode.REFUSED)
    if wait is not None:
        context.exit(watch(context, runtime, result.job, after=0, timeout=wait, as_json=as_json))


def _tell(runtime: Runtime, result: EnqueueResult) -> None:
    job = result.job
    if not result.ok:
        remark(f"Not queued ({result.status}). {safe(result.message or '')}")
        return
    when = moment(job.not_before, runtime.config.timezone)
    later = f", not before {when}" if when else ""
    echo(f"Queued {one_line(job.job_type)}: job {job.uuid} (id {job.id}){later}.")
    alive = runtime.supervisors.alive(runtime.supervisor_silence)
    missing = nobody_takes(job.job_type, runtime.config.revision, alive)
    if missing:
        remark(safe(missing))
