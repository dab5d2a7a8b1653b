"""`start`: a job from the command line, launched detached like one from a view."""

from __future__ import annotations

from typing import Any

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.start import start
from flask_jobrunner.model.results import StartResult
from flask_jobrunner.model.statuses import ExitCode

from .common import acting, json_option, masked, ready_runtime, subcommand, wait_option
from .new_job import new_job_options, read_payload
from .output import echo, echo_json, on_terminal, one_line, remark, safe
from .watch import watch


@click.command("start", short_help="Start a job.")
@click.argument("job_type", metavar="TYPE")
@new_job_options
@wait_option("Show the log to the end, at most SECONDS, and exit by the job's status.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    /,
    job_type: str,
    payload: str | None,
    wait: float | None,
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
    **options: Any,
) -> None:
    """Start a job of TYPE in a process of its own.

    Exits 0 when the job was taken on, 1 when its process could not be started, 5 when an active
    job holds the lock key.
    """
    runtime = ready_runtime()
    result = start(
        runtime, job_type, read_payload(payload), actor=acting(runtime), wait=True, **options
    )
    if as_json and (wait is None or not result.ok):
        echo_json(masked(runtime, result.to_dict()))
    elif not as_json:
        _tell(context, result)
    if not result.ok:
        context.exit(exit_code_of_launch(result.status))
    if wait is not None:
        context.exit(watch(context, runtime, result.job, after=0, timeout=wait, as_json=as_json))


def exit_code_of_launch(status: str) -> int:
    """What a launch's result status exits with."""
    codes = {"not_found": ExitCode.NOT_FOUND, "launch_failed": ExitCode.FAILED}
    if status in ("started", "launching", "queued"):
        return ExitCode.OK
    return codes.get(status, ExitCode.REFUSED)


def _tell(context: click.Context, result: StartResult) -> None:
    job = result.job
    if not result.ok:
        remark(f"Not started ({result.status}). {safe(result.message or '')}")
        return
    word = "Started" if result.status == "started" else "Launched"
    echo(f"{word} {one_line(job.job_type)}: job {job.uuid} (id {job.id}).")
    if result.status == "launching":
        remark("Its process has not taken the job yet; it may still fail to.")
    if on_terminal() and context.params["wait"] is None:
        remark(f"Follow it with: {subcommand(context, f'logs -f {job.id}')}")
