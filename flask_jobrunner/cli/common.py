"""What several commands share: naming a job, who acts, the times they print, waiting."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeVar

import click
from flask.cli import ScriptInfo

from flask_jobrunner.caller.inspect import check_ref, look_at
from flask_jobrunner.model.errors import JobNotFound
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.protocol.redact import mask_value
from flask_jobrunner.runtime import Runtime, current_runtime

F = TypeVar("F", bound=Callable[..., Any])
FOR_EVER = 10 * 365 * 86400.0
"""Seconds that stand for no limit."""
LONGEST_AGE = 100 * 365 * 86400
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_AGE = re.compile(r"([0-9]{1,9})([smhdw]?)\Z")


def job_argument(*, several: bool = False) -> Callable[[F], F]:
    """JOB, or JOB…, of which there may be none: uuids or ids."""
    if several:
        return click.argument("job", nargs=-1, callback=_read_refs)
    return click.argument("job", callback=_read_ref)


def json_option(command: F) -> F:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def wait_option(what: str) -> Callable[[F], F]:
    """--wait [SECONDS]; without a value it waits for as long as it takes."""
    return click.option(
        "--wait",
        is_flag=False,
        flag_value=str(FOR_EVER),
        callback=_read_seconds,
        metavar="[SECONDS]",
        help=what,
    )


def _read_ref(context: click.Context, parameter: click.Parameter, value: str) -> int | str:
    text = value.strip()
    ref = int(text) if re.fullmatch("[0-9]{1,18}", text) else text
    if isinstance(ref, str) and not check_ref(ref):
        raise click.BadParameter(
            f"{text!r} is neither a job's uuid nor its id.", context, parameter
        )
    return check_ref(ref)


def _read_refs(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> list[int | str]:
    return list(dict.fromkeys(_read_ref(context, parameter, one) for one in value))


def _read_seconds(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= FOR_EVER:
        raise click.BadParameter(
            f"{value!r} is no number of seconds; write --wait=30, or --wait after everything else.",
            context,
            parameter,
        )
    return seconds


def read_age(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A number with s, m, h, d or w behind it, or of seconds: in seconds."""
    if value is None:
        return None
    found = _AGE.match(value.strip())
    seconds = int(found[1]) * _UNITS[found[2] or "s"] if found else 0
    if found and not seconds:
        # With `prune` a slip would remove everything that has ended.
        raise click.BadParameter(
            "An age is more than 0, such as 90d, 12h or 30m.", context, parameter
        )
    if not 0 < seconds <= LONGEST_AGE:
        raise click.BadParameter(
            f"{value!r} is no age; write 90d, 12h, 30m or seconds.", context, parameter
        )
    return float(seconds)


def ready_runtime() -> Runtime:
    """The application's runtime; raises `SchemaError` unless its tables are ours."""
    runtime = current_runtime()
    runtime.meta.ensure()
    return runtime


def find(runtime: Runtime, ref: int | str) -> OwnedJob:
    """The job, settled first; raises `JobNotFound`."""
    seen = look_at(runtime, ref)
    if seen is None:
        raise JobNotFound(f"There is no job {ref}.")
    return seen


def acting(runtime: Runtime) -> str:
    """Who acts: the application's `@jobs.actor` where it has an answer, else the system's user."""
    if runtime.hooks.actor is not None:
        try:
            who = runtime.hooks.actor()
        except Exception:  # noqa: BLE001 - written for requests, and here there is none
            who = None
        if who:
            return who
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"


def now_of(runtime: Runtime, seen: OwnedJob | None = None) -> datetime:
    """The time by the database's clock where a row was just read, else this process's."""
    micros = seen.now if seen is not None else runtime.database.clock()
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def moment(at: datetime | None, zone: tzinfo) -> str:
    """A time with its zone: `2026-11-29 13:40:02 UTC`."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}" if at is not None else ""


def ago(at: datetime, now: datetime) -> str:
    """How long ago, in its largest unit."""
    seconds = max(0, int((now - at).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def masked(runtime: Runtime, value: Any) -> Any:
    """A value without what JOBRUNNER_REDACT_KEYS hides."""
    return mask_value(value, runtime.config.redact_keys)


def subcommand(context: click.Context, rest: str) -> str:
    """`flask jobs REST`, as this process was called, for people to copy."""
    info = context.find_object(ScriptInfo)
    app = info.app_import_path if info is not None else None
    option = f" --app {shlex.quote(app)}" if app and app != os.environ.get("FLASK_APP") else ""
    root, group = context.find_root(), context.parent
    name = f"{group.info_name} " if group is not None and group is not root else ""
    return f"{root.info_name}{option} {name}{rest}"
