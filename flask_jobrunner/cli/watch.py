"""Waiting for a job's end at the terminal: its log on the way, its status as the exit code."""

from __future__ import annotations

import click

from flask_jobrunner.model.records import Job, LogLine, OwnedJob
from flask_jobrunner.model.statuses import exit_code_of
from flask_jobrunner.model.words import duration, sentence
from flask_jobrunner.runtime import Runtime

from .common import masked, now_of, subcommand
from .follow import follow
from .log_lines import Show, text_printer
from .output import echo_json, remark, safe

INTERRUPTED_BY_USER = 130


def watch(
    context: click.Context,
    runtime: Runtime,
    job: Job,
    *,
    after: int,
    timeout: float,
    as_json: bool = False,
) -> int:
    """Show the lines after `after` to the end, then the status: the exit code that stands for it.

    As JSON only the job is printed, as it is at the end.
    """
    show = silent if as_json else text_printer(runtime, attempt=job.attempt)
    seen = follow_to_end(context, runtime, job, show, after=after, timeout=timeout)
    if as_json:
        echo_json(masked(runtime, seen.job.to_dict()))
    else:
        tell_end(context, runtime, seen, timeout)
    return exit_code_of(seen.job.status)


def follow_to_end(
    context: click.Context,
    runtime: Runtime,
    job: Job,
    show: Show,
    *,
    after: int,
    timeout: float,
) -> OwnedJob:
    """`follow`; Ctrl-C ends the command and not the job."""
    try:
        return follow(runtime, job.id, after, show, timeout=timeout)
    except KeyboardInterrupt:
        again = subcommand(context, f"logs -f {job.id}")
        remark(f"\nNo longer watching; the job goes on. Follow it with: {again}")
        context.exit(INTERRUPTED_BY_USER)


def tell_end(context: click.Context, runtime: Runtime, seen: OwnedJob, timeout: float) -> None:
    """Say how the job stands, on standard error: the output is the job's own."""
    job = seen.job
    remark(f"Job {job.uuid}: {sentence(job, now_of(runtime, seen))}")
    if job.error_message and job.started_at is None:
        # It never ran, so no line of its log says why.
        remark(safe(job.error_message))
    if job.is_active:
        again = subcommand(context, f"logs -f {job.id}")
        remark(f"Not over after {duration(timeout)}; the job goes on. Follow it with: {again}")


def silent(_: LogLine) -> None:
    """Show nothing of a line."""
