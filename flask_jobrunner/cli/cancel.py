"""`cancel`: a queued job is cancelled, a running one is asked to stop, or with --force ended."""

from __future__ import annotations

import time
from dataclasses import replace

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.cancel import cancel
from flask_jobrunner.model.errors import JobNotFound
from flask_jobrunner.model.records import Job
from flask_jobrunner.model.results import CancelResult
from flask_jobrunner.model.words import STATUS_WORDS
from flask_jobrunner.recovery.settle import settle_row
from flask_jobrunner.recovery.stop import end_owner
from flask_jobrunner.runtime import Runtime

from .common import acting, job_argument, json_option, masked, ready_runtime, wait_option
from .follow import newest_seq
from .output import echo, echo_json
from .watch import watch

RECORD_SECONDS = 15.0
"""How long the parent of a process that was ended has to say so."""
_WORDS = {
    "cancelled": "Cancelled job {uuid} before it started.",
    "cancel_requested": "Asked job {uuid} to stop; it does so at its next checkpoint.",
    "already_cancel_requested": "Job {uuid} had already been asked to stop.",
}


@click.command("cancel", short_help="Cancel a job.")
@job_argument()
@click.option(
    "--force",
    is_flag=True,
    help="End its process, if it runs on this machine; close a job that is lost.",
)
@wait_option("Show the log to the end, at most SECONDS, and exit by the job's status.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    job: int | str,
    force: bool,  # noqa: FBT001 - click passes options as they are declared
    wait: float | None,
    as_json: bool,  # noqa: FBT001
) -> None:
    """Cancel JOB: one that waits is over, one that runs is asked to stop.

    Its process is ended only with --force, and with the handler's CANCEL_GRACE. A job that has
    ended stays as it is; a lost one is closed with --force.
    """
    runtime = ready_runtime()
    result = cancel(runtime, job, actor=acting(runtime), force=force)
    if result.job is None:
        raise JobNotFound(f"There is no job {job}.")
    now = _end(runtime, result.job) if force and result.job.is_active else result.job
    result = replace(result, job=now)
    if not as_json:
        echo(_words(runtime, result, now, force=force))
    elif wait is None:
        echo_json(masked(runtime, result.to_dict()))
    if wait is not None:
        after = newest_seq(runtime, now.id)
        code = watch(context, runtime, now, after=after, timeout=wait, as_json=as_json)
        context.exit(code)


def _end(runtime: Runtime, job: Job) -> Job:
    """End the job's process where it can be seen; the job as it is after that."""
    seen = runtime.jobs.owned(job.id)
    if seen is None or not end_owner(runtime, seen, by="cancel_force", actor=acting(runtime)):
        return job
    until = time.monotonic() + RECORD_SECONDS
    # Its parent knows best how it ended, and says so now.
    while time.monotonic() < until:
        settled = settle_row(runtime, job.id)
        if settled is None or not settled.job.is_active:
            break
        time.sleep(0.1)
    return runtime.jobs.get(job.id) or job


def _words(runtime: Runtime, result: CancelResult, job: Job, *, force: bool) -> str:
    if force and result.ok and job.is_terminal:
        return f"Job {job.uuid} is {STATUS_WORDS[job.status].lower()}."
    if force and result.ok:
        seen = runtime.jobs.owned(job.id)
        if seen is not None and seen.is_inline:
            return (
                f"Asked job {job.uuid} to stop. It runs inside process {seen.worker.pid}, which is "
                "not ended for it; it stops at its next checkpoint."
            )
        return (
            f"Job {job.uuid} is to be ended; its process cannot be reached from here. It ends "
            "itself, or `flask jobs work` or `sweep` on its machine ends it."
        )
    text = _WORDS.get(result.status)
    if text is None:
        return f"Job {job.uuid} has ended already: {STATUS_WORDS[job.status].lower()}."
    return text.format(uuid=job.uuid)
