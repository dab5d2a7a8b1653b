"""`run`, `run-trusted`, `settle`: what flask_jobrunner calls itself, secrets on standard input."""

from __future__ import annotations

import os
import select
import stat
import sys

import click
from flask.cli import ScriptInfo

from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.protocol.report import (
    REPORT_MAX_BYTES,
    EndReport,
    ReportError,
    parse_report,
)
from flask_jobrunner.runtime import building, current_runtime, set_process_role

from .group import fail

STDIN = 0


@click.command(hidden=True)
@click.argument("job")
@click.pass_context
def run(context: click.Context, job: str) -> None:
    """Run one job in this process; flask_jobrunner calls this itself.

    The right to run it comes on standard input. To start a job by hand, use `start`.
    """
    set_process_role("job")
    from flask_jobrunner.child.boot import main

    # The application is given as a call: it is built once the input has been checked.
    sys.exit(main(context.ensure_object(ScriptInfo).load_app, job))


@click.command("run-trusted", hidden=True)
@click.argument("job", required=False)
@click.option("--standby", is_flag=True)
@click.pass_context
def run_trusted(context: click.Context, job: str | None, standby: bool) -> None:  # noqa: FBT001 - click passes options as they are declared
    """Run one job of the queue in this process; `work` calls this itself.

    The right to run it comes on standard input; with --standby, which job it is as well, once the
    application is built. To run what waits in the queue, use `work`.
    """
    if standby == (job is not None):
        raise click.UsageError("Either a JOB or --standby, which waits to be told of one.")
    set_process_role("standby" if standby else "job")
    load_app = context.ensure_object(ScriptInfo).load_app
    if standby:
        from flask_jobrunner.child import standby as waiting

        sys.exit(waiting.main(load_app))
    from flask_jobrunner.child.boot import main

    sys.exit(main(load_app, str(job), "trusted"))


@click.command(hidden=True)
@click.argument("job")
@click.pass_context
def settle(context: click.Context, job: str) -> None:
    """Record how a job's process ended; flask_jobrunner calls this itself.

    The report comes on standard input. To end jobs whose processes are gone, use `sweep`.
    """
    if _is_empty(STDIN):
        fail(
            "`settle` is called by flask_jobrunner itself, with a report on standard input. To end "
            "jobs whose processes are gone, use `flask jobs sweep`.",
            ExitCode.USAGE,
        )
    # It is no server either: a factory leaves out here what it leaves out for jobs.
    set_process_role("job")
    report = _read_report(job)
    from flask_jobrunner.recovery.settle import settle_report

    with building():
        app = context.ensure_object(ScriptInfo).load_app()
    with app.app_context():
        if not settle_report(current_runtime(), report):
            fail("The report could not be recorded; try again.", ExitCode.FAILED)


def _read_report(job: str) -> EndReport:
    try:
        report = parse_report(sys.stdin.buffer.readline(REPORT_MAX_BYTES + 1))
    except ReportError as error:
        fail(f"Standard input holds no report: {error}.", ExitCode.USAGE)
    if report.uuid != job:
        fail("The report is that of another job.", ExitCode.USAGE)
    return report


def _is_empty(number: int) -> bool:
    """Whether there is nothing to read and never will be; a pipe is waited for, not read."""
    try:
        status = os.fstat(number)
    except OSError:
        return True
    if stat.S_ISREG(status.st_mode):
        return os.lseek(number, 0, os.SEEK_CUR) >= status.st_size
    if stat.S_ISCHR(status.st_mode):
        # A terminal or /dev/null; no device ever holds a report.
        return True
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return not dict(poll.poll()).get(number, 0) & select.POLLIN
