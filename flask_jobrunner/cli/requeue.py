"""`requeue`: ended jobs run again, each as the next attempt of its row."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.requeue import requeue
from flask_jobrunner.model.results import RequeueResult
from flask_jobrunner.model.statuses import ExitCode, exit_code_of
from flask_jobrunner.runtime import Runtime

from .common import acting, job_argument, json_option, masked, ready_runtime, wait_option
from .follow import newest_seq
from .log_lines import text_printer
from .output import echo, echo_json, remark, safe
from .start import exit_code_of_launch
from .watch import follow_to_end, silent, tell_end


@click.command("requeue", short_help="Run ended jobs again.")
@job_argument(several=True)
@click.option(
    "--confirm-lost", is_flag=True, help="Also a lost job, whose process may still be working."
)
@click.option(
    "--delay",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Begin after so many seconds or later; for jobs of the queue.",
)
@wait_option("Show the logs to the end, at most SECONDS, and exit by the jobs' status.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    job: list[int | str],
    confirm_lost: bool,  # noqa: FBT001 - click passes options as they are declared
    delay: float | None,
    wait: float | None,
    as_json: bool,  # noqa: FBT001
) -> None:
    """Run each JOB again, as the next attempt of the same row, with the same payload.

    Only failed, interrupted and cancelled jobs can run again, and lost ones with --confirm-lost.
    Exits by the first that could not, or with --wait did not succeed.
    """
    runtime = ready_runtime()
    taken = [
        _requeue(runtime, ref, confirm_lost=confirm_lost, delay=delay, tell=not as_json)
        for ref in job
    ]
    until = time.monotonic() + (wait or 0)
    if wait is not None:
        for one in taken:
            one.follow(context, runtime, max(0.0, until - time.monotonic()), quiet=as_json)
    if as_json:
        echo_json([masked(runtime, {"asked": one.ref, **one.result.to_dict()}) for one in taken])
    codes = [one.exit_code for one in taken]
    context.exit(next((code for code in codes if code != ExitCode.OK), ExitCode.OK))


@dataclass
class _Taken:
    """One JOB of the command: what became of its requeue, and then of the job."""

    ref: int | str
    result: RequeueResult
    seq_before: int
    exit_code: int

    def follow(
        self, context: click.Context, runtime: Runtime, timeout: float, *, quiet: bool
    ) -> None:
        """Watch the new attempt to its end."""
        job = self.result.job
        if job is None or not self.result.ok:
            return
        show = silent if quiet else text_printer(runtime, attempt=job.attempt)
        seen = follow_to_end(context, runtime, job, show, after=self.seq_before, timeout=timeout)
        self.result = replace(self.result, job=seen.job)
        self.exit_code = exit_code_of(seen.job.status)
        if not quiet:
            tell_end(context, runtime, seen, timeout)


def _requeue(
    runtime: Runtime, ref: int | str, *, confirm_lost: bool, delay: float | None, tell: bool
) -> _Taken:
    seq_before = newest_seq(runtime, ref)
    result = requeue(runtime, ref, actor=acting(runtime), confirm_lost=confirm_lost, delay=delay)
    if tell:
        _tell(ref, result)
    return _Taken(ref, result, seq_before, exit_code_of_launch(result.status))


def _tell(ref: int | str, result: RequeueResult) -> None:
    job = result.job
    if job is not None and result.ok:
        what = "waits" if result.status == "queued" else "runs"
        echo(f"Job {job.uuid} {what} again, as attempt {job.attempt}.")
    else:
        name = job.uuid if job is not None else ref
        remark(f"Job {name} does not run again ({result.status}). {safe(result.message or '')}")
