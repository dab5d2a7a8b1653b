"""`logs`: a job's log, from its first line, or as it grows."""

from __future__ import annotations

import itertools

import click
from flask.cli import with_appcontext

from flask_jobrunner.runtime import Runtime

from .common import FOR_EVER, find, job_argument, ready_runtime
from .follow import lines_after, newest_seq
from .log_lines import Show, json_printer, text_printer
from .output import remark
from .watch import follow_to_end, tell_end


@click.command("logs", short_help="Show a job's log.")
@job_argument()
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the job has ended.")
@click.option(
    "--after", type=click.IntRange(0), metavar="N", help="Only lines after number N.", default=None
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="At most N lines: the newest, or with --after the next.",
)
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    job: int | str,
    follows: bool,  # noqa: FBT001 - click passes options as they are declared
    after: int | None,
    limit: int | None,
    timestamps: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    """Show the log of JOB, from its first line.

    Nothing is left out unless --after or --limit says so. With -f, Ctrl-C ends the command and
    leaves the job alone.
    """
    if follows and after is not None and limit is not None:
        raise click.UsageError("-f shows every line from --after on; --limit would leave some out.")
    runtime = ready_runtime()
    seen = find(runtime, job)
    show = json_printer(runtime) if as_json else text_printer(runtime, timestamps=timestamps)
    start = after or 0
    if after is None and limit is not None:
        # Numbers have no gaps, so this is before the newest `limit` lines.
        start = max(0, newest_seq(runtime, seen.job.id) - limit)
    if not follows:
        _print(runtime, seen.job.id, start, limit, show)
        return
    ended = follow_to_end(context, runtime, seen.job, show, after=start, timeout=FOR_EVER)
    tell_end(context, runtime, ended, FOR_EVER)


def _print(runtime: Runtime, job_id: int, after: int, limit: int | None, show: Show) -> None:
    count = 0
    for line in itertools.islice(lines_after(runtime, job_id, after), limit):
        show(line)
        count += 1
    if not count:
        remark("No lines.")
