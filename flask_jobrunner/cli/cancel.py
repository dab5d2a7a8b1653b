"""`cancel`: a queued job is cancelled, a running one is asked to stop."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.cancel import cancel
from flask_jobrunner.model.errors import JobNotFound
from flask_jobrunner.model.records import Job
from flask_jobrunner.model.results import CancelResult
from flask_jobrunner.model.words import STATUS_WORDS

from .common import acting, job_argument, json_option, masked, ready_runtime, wait_option
from .follow import newest_seq
from .output import echo, echo_json
from .watch import watch

_WORDS = {
    "cancelled": "Cancelled job {uuid} before it started.",
    "cancel_requested": "Asked job {uuid} to stop; it does so at its next checkpoint.",
    "already_cancel_requested": "Job {uuid} had already been asked to stop.",
}


@click.command("cancel", short_help="Cancel a job.")
@job_argument()
@wait_option("Show the log to the end, at most SECONDS, and exit by the job's status.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    job: int | str,
    wait: float | None,
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
) -> None:
    """Cancel JOB: one that waits is over, one that runs is asked to stop.

    A process is never ended by this. A job that has ended stays as it is.
    """
    runtime = ready_runtime()
    result = cancel(runtime, job, actor=acting(runtime))
    if result.job is None:
        raise JobNotFound(f"There is no job {job}.")
    if not as_json:
        echo(_words(result, result.job))
    elif wait is None:
        echo_json(masked(runtime, result.to_dict()))
    if wait is not None:
        after = newest_seq(runtime, result.job.id)
        code = watch(context, runtime, result.job, after=after, timeout=wait, as_json=as_json)
        context.exit(code)


def _words(result: CancelResult, job: Job) -> str:
    text = _WORDS.get(result.status)
    if text is None:
        return f"Job {job.uuid} has ended already: {STATUS_WORDS[job.status].lower()}."
    return text.format(uuid=job.uuid)
