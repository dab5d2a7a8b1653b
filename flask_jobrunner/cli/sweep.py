"""`sweep`: ends what can be proven over, so that nothing stays active for ever."""

from __future__ import annotations

from dataclasses import asdict

import click
from flask.cli import with_appcontext

from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.recovery.sweep import SweepResult, sweep_once

from .common import json_option, ready_runtime
from .output import count, echo, echo_json, remark, status_word


@click.command("sweep", short_help="End jobs whose processes are gone.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
) -> None:
    """Look at every active job once, and end those that are proven over.

    Meant for a timer. It takes some seconds longer when a job's process cannot be seen from here:
    such a job is lost only when its lease stays unchanged meanwhile.
    """
    result = sweep_once(ready_runtime())
    if as_json:
        echo_json(asdict(result))
    else:
        _tell(result)
    if result.failed:
        context.exit(ExitCode.FAILED)


def _tell(result: SweepResult) -> None:
    for uuid, status in result.moved.items():
        echo(f"{uuid}  {status_word(status)}")
    again = sum(status == "queued" for status in result.moved.values())
    ended = len(result.moved) - again
    text = f"Looked at {count(result.looked_at, 'active job')}: {ended:,} ended."
    if again:
        text += f" {count(again, 'interrupted job')} waiting again."
    if result.reports:
        text += f" Recorded {count(result.reports, 'waiting report')}."
    echo(text)
    for uuid in result.failed:
        remark(f"{uuid} could not be judged; the application's log says why.")
