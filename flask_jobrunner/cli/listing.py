"""`list`: jobs as a table, newest first."""

from __future__ import annotations

from datetime import datetime

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.inspect import find
from flask_jobrunner.model.records import Job, Page
from flask_jobrunner.model.statuses import JobStatus
from flask_jobrunner.model.words import between, duration
from flask_jobrunner.repositories.listing import PAGE_MAX

from .common import ago, json_option, masked, now_of, ready_runtime, subcommand
from .output import echo, echo_json, one_line, remark, status_word, table, terminal_width

_HEADER = ("id", "status", "type", "title", "progress", "created", "took")
_GIVE = (2, 3, 4)


@click.command("list", short_help="List jobs, newest first.")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice([str(status) for status in JobStatus]),
    help="Only jobs of this status; may be given again.",
)
@click.option("--type", "job_type", help="Only jobs of this type.")
@click.option("--owner", help="Only this owner's jobs.")
@click.option("--reference", help="Only jobs about this.")
@click.option("--actor", help="Only jobs that this one started.")
@click.option("--lock-key", help="Only the job that holds this key now.")
@click.option(
    "--limit", type=click.IntRange(1, PAGE_MAX), default=50, show_default=True, help="How many."
)
@click.option("--cursor", help="Go on where another page ended.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    /,
    status: tuple[str, ...],
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
    limit: int,
    **narrow: str | None,
) -> None:
    """List jobs, newest first.

    In a terminal the table is cut to its width; elsewhere nothing is, and uuids are added.
    """
    runtime = ready_runtime()
    page = find(runtime, status=status or None, limit=limit, **narrow)
    if as_json:
        echo_json(masked(runtime, page.to_dict()))
        return
    if not page.jobs:
        remark("No jobs." if not any([status, *narrow.values()]) else "No such jobs.")
        return
    for line in _table(page, now_of(runtime)):
        echo(line)
    if page.next_cursor is not None:
        again = subcommand(context, f"list … --cursor {page.next_cursor}")
        remark(f"There may be more: {again}")


def _table(page: Page, now: datetime) -> list[str]:
    width = terminal_width()
    header, rows = list(_HEADER), [_row(job, now) for job in page.jobs]
    if width is None:
        header.append("uuid")
        rows = [[*row, job.uuid] for row, job in zip(rows, page.jobs, strict=True)]
    return table(header, rows, give=_GIVE, width=width)


def _row(job: Job, now: datetime) -> list[str]:
    took = between(job.started_at, job.finished_at or now)
    return [
        str(job.id),
        status_word(job.status),
        one_line(job.job_type),
        one_line(job.title or ""),
        _progress(job),
        ago(job.created_at, now),
        "" if took is None else duration(took),
    ]


def _progress(job: Job) -> str:
    if job.status == "succeeded":
        return ""
    if job.progress_done is not None:
        return f"{job.progress_done:,}" + (f"/{job.progress_total:,}" if job.progress_total else "")
    if job.step_index is not None:
        return f"step {job.step_index}" + (f"/{job.step_total}" if job.step_total else "")
    return one_line(job.error_reason_code or "") if job.is_terminal else ""
