"""`prune`: removes ended jobs, and lines and files of jobs, that are older than anybody wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import click
from flask.cli import with_appcontext

from flask_jobrunner.model.words import duration
from flask_jobrunner.recovery.retention import Ages, PruneResult, dry_run, prune, wanted_ages

from .common import F, json_option, read_age, ready_runtime
from .output import count, echo, echo_json, remark


def _age_option(name: str, variable: str, default: str) -> Callable[[F], F]:
    text = f"Default: {default}."
    return click.option(name, variable, callback=read_age, metavar="AGE", help=text)


@click.command("prune", short_help="Remove jobs, lines and files that are old.")
@_age_option("--jobs", "job_age", "JOBRUNNER_JOB_RETENTION")
@_age_option("--lines", "log_age", "JOBRUNNER_LOG_RETENTION")
@_age_option("--files", "file_age", "each file's own expiry")
@click.option("--dry-run", "only_count", is_flag=True, help="Only say what would be removed.")
@json_option
@with_appcontext
def command(
    job_age: float | None,
    log_age: float | None,
    file_age: float | None,
    only_count: bool,  # noqa: FBT001 - click passes options as they are declared
    as_json: bool,  # noqa: FBT001
) -> None:
    """Remove jobs that ended more than AGE ago, with all that is theirs, and of those that stay the
    lines; what supervisors that are gone were told; and files that were made more than AGE ago or
    are past their expiry.

    AGE is like 90d, 12h or 30m. Active and lost jobs are never removed. Meant for a timer: it works
    in small steps beside running jobs.
    """
    runtime = ready_runtime()
    ages = wanted_ages(runtime, Ages(jobs=job_age, lines=log_age, files=file_age))
    result = dry_run(runtime, ages) if only_count else prune(runtime, ages)
    if as_json:
        echo_json({"ages": asdict(ages), "dry_run": only_count, **asdict(result)})
    else:
        _tell(result, ages, only_count=only_count)


def _tell(result: PruneResult, ages: Ages, *, only_count: bool) -> None:
    would = "Would remove" if only_count else "Removed"
    text = f"{would} {count(result.jobs, 'job')} and {count(result.lines, 'line')}"
    others = {
        "file": result.files,
        "unfinished file": result.leftovers,
        "unreadable report": result.reports,
        "event": result.events,
    }
    more = "".join(f", and {count(number, noun)}" for noun, number in others.items() if number)
    named = (("jobs", ages.jobs), ("lines", ages.lines), ("files", ages.files))
    what = [f"{name} older than {duration(age)}" for name, age in named if age is not None]
    echo(f"{text}{more} ({', '.join(what) or 'files past their expiry'}).")
    for uuid in result.kept:
        remark(f"{uuid} stays: it has just changed, or another table refers to it.")
