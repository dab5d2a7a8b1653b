"""`requeue`: ended jobs run again, each as the next attempt of its row."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.requeue import requeue
from flask_jobrunner.model.results import RequeueResult
from flask_jobrunner.model.statuses import REQUEUEABLE, ExitCode, exit_code_of
from flask_jobrunner.repositories.listing import PAGE_MAX, JobFilter
from flask_jobrunner.runtime import Runtime

from .common import (
    acting,
    job_argument,
    json_option,
    masked,
    read_age,
    ready_runtime,
    wait_option,
)
from .follow import newest_seq
from .group import fail
from .log_lines import text_printer
from .output import count, echo, echo_json, on_terminal, remark, safe
from .start import exit_code_of_launch
from .watch import follow_to_end, silent, tell_end

AT_ONCE = 1000


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
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(sorted(str(status) for status in REQUEUEABLE)),
    help="All jobs of this status, with --since; may be given again.",
)
@click.option("--type", "job_type", help="With --status: only jobs of this type.")
@click.option(
    "--since",
    callback=read_age,
    metavar="AGE",
    help="With --status: those that ended in the last AGE, such as 2h or 30m.",
)
@click.option("--yes", is_flag=True, help="With --status: do not ask.")
@wait_option("Show the logs to the end, at most SECONDS, and exit by the jobs' status.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    job: list[int | str],
    confirm_lost: bool,  # noqa: FBT001 - click passes options as they are declared
    delay: float | None,
    status: tuple[str, ...],
    job_type: str | None,
    since: float | None,
    yes: bool,  # noqa: FBT001
    wait: float | None,
    as_json: bool,  # noqa: FBT001
) -> None:
    """Run each JOB again, as the next attempt of the same row, with the same payload.

    Only failed, interrupted and cancelled jobs can run again, and lost ones with --confirm-lost.
    Instead of JOB, --status and --since name them all. Exits by the first that could not, or with
    --wait did not succeed.
    """
    if bool(job) == bool(status) or bool(status) != (since is not None) or (job_type and job):
        raise click.UsageError("Name the jobs, or say which with --status and --since.")
    runtime = ready_runtime()
    if status:
        job = _all(runtime, status, job_type, since)
        _confirm(len(job), yes=yes or as_json)
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


def _all(
    runtime: Runtime, status: tuple[str, ...], job_type: str | None, since: float | None
) -> list[int | str]:
    """The uuids of the jobs that are meant, first one first."""
    narrow = JobFilter(status=status, job_type=job_type, finished_within=since)
    found, cursor = list[int | str](), None
    while True:
        page = runtime.listing.find(narrow, cursor=cursor, limit=PAGE_MAX)
        found += [one.uuid for one in page.jobs]
        cursor = page.next_cursor
        if len(found) > AT_ONCE:
            fail(
                f"These are more than {AT_ONCE:,} jobs; narrow them by --type or --since.",
                ExitCode.USAGE,
            )
        if cursor is None:
            return found[::-1]


def _confirm(number: int, *, yes: bool) -> None:
    if not number:
        remark("No such jobs.")
    elif not yes and on_terminal():
        click.confirm(f"Run {count(number, 'job')} again?", abort=True)


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
