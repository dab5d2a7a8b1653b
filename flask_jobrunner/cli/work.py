"""`work`: the supervisor, which runs what `enqueue` left in the queue."""

from __future__ import annotations

import sys

import click
from flask.cli import ScriptInfo

from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.protocol.checks import SECONDS_MAX, is_seconds
from flask_jobrunner.runtime import Runtime, current_runtime, package_version, set_process_role


def _read_types(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    # An empty one, as of a variable that is not set, would take nothing for ever.
    if any(not one.strip() for one in value):
        raise click.BadParameter(
            "it is empty; leave it out to take every type.", context, parameter
        )
    return value


def _read_timeout(
    context: click.Context, parameter: click.Parameter, value: float | None
) -> float | None:
    # Neither NaN nor for ever: TERM has to have an end.
    if value is not None and not (is_seconds(value) and value <= SECONDS_MAX):
        text = f"it is a number of seconds from 0 to {SECONDS_MAX:,}."
        raise click.BadParameter(text, context, parameter)
    return value


@click.command("work", short_help="Run what waits in the queue.")
@click.option(
    "--slots",
    type=click.IntRange(1, 1000),
    help="How many jobs run at once. Default: JOBRUNNER_SLOTS.",
)
@click.option(
    "--standby",
    type=click.IntRange(0, 100),
    help="How many processes wait for jobs with the application already built; 0: none. "
    "Default: JOBRUNNER_STANDBY, and none for a burst.",
)
@click.option(
    "--types",
    multiple=True,
    callback=_read_types,
    metavar="GLOB",
    help="Take only such job types, as in 'reports.*'. May be given more than once.",
)
@click.option("--burst", is_flag=True, help="End when nothing is left that could be taken now.")
@click.option(
    "--drain-timeout",
    type=float,
    callback=_read_timeout,
    metavar="SECONDS",
    help="Within how many seconds of TERM or Ctrl-C all has ended. "
    "Default: JOBRUNNER_DRAIN_TIMEOUT.",
)
@click.pass_context
def command(
    context: click.Context,
    slots: int | None,
    standby: int | None,
    types: tuple[str, ...],
    burst: bool,  # noqa: FBT001 - click passes options as they are declared
    drain_timeout: float | None,
) -> None:
    """Run the jobs that wait in the queue, each in a process of its own.

    TERM and Ctrl-C end it in order: no more jobs are taken, running ones go on for a while, then
    they are asked to stop, then ended. A second one hurries. Its log is lines for people on a
    terminal, JSON lines elsewhere.

    Exits 0 when it was told to end or its burst is over, 1 when a burst could start no process.
    """
    if sys.platform != "win32":
        from flask_jobrunner.supervisor.first import leave_process_one

        leave_process_one()
    set_process_role("supervisor")
    app = context.ensure_object(ScriptInfo).load_app()
    with app.app_context():
        runtime = current_runtime()
        _check(runtime)
        from flask_jobrunner.supervisor.log import Log
        from flask_jobrunner.supervisor.loop import Supervisor
        from flask_jobrunner.supervisor.plan import Plan

        config = runtime.config
        plan = Plan(
            slots=config.slots if slots is None else slots,
            standby=(0 if burst else config.standby) if standby is None else standby,
            types=tuple(types),
            burst=burst,
            drain_timeout=config.drain_timeout if drain_timeout is None else drain_timeout,
            version=package_version(),
        )
        log = Log(sys.stdout, as_json=not sys.stdout.isatty())
        code = Supervisor(runtime, plan, log).run()
    context.exit(code)


def _check(runtime: Runtime) -> None:
    """Raises `ConfigError`, `SchemaError` or `DatabaseAway` where it cannot work."""
    if sys.platform == "win32":
        raise ConfigError(
            "`flask jobs work` starts and ends processes in ways that Linux and macOS have. On "
            "Windows, jobs can be enqueued and looked at; run the supervisor elsewhere, on the "
            "same database."
        )
    if runtime.database.in_memory:
        raise ConfigError("The database is in memory, where no other process can put a job.")
    runtime.command()
    runtime.meta.ensure()
