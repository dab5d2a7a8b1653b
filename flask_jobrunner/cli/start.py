"""`start`: a job from the command line, launched detached like one from a view."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.start import start
from flask_jobrunner.model.errors import InvalidPayload
from flask_jobrunner.model.results import StartResult
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.protocol.encoding import decode_strict

from .common import acting, json_option, masked, ready_runtime, subcommand, wait_option
from .output import echo, echo_json, on_terminal, one_line, remark, safe
from .watch import watch

PAYLOAD_INPUT_MAX = 128 << 20


@click.command("start", short_help="Start a job.")
@click.argument("job_type", metavar="TYPE")
@click.option(
    "--payload", metavar="JSON|@FILE|-", help="A JSON object: as it is, from a file, or from stdin."
)
@click.option("--lock-key", help="Start only while no active job has this key.")
@click.option("--title", help="What pages call the job.")
@click.option("--owner", help="Whose job it is.")
@click.option("--reference", help="What of yours it is about, such as import:42.")
@wait_option("Show the log to the end, at most SECONDS, and exit by the job's status.")
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    /,
    job_type: str,
    payload: str | None,
    wait: float | None,
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
    **options: str | None,
) -> None:
    """Start a job of TYPE in a process of its own.

    Exits 0 when the job was taken on, 1 when its process could not be started, 5 when an active
    job holds the lock key.
    """
    runtime = ready_runtime()
    result = start(
        runtime, job_type, _read_payload(payload), actor=acting(runtime), wait=True, **options
    )
    if as_json and (wait is None or not result.ok):
        echo_json(masked(runtime, result.to_dict()))
    elif not as_json:
        _tell(context, result)
    if not result.ok:
        context.exit(exit_code_of_launch(result.status))
    if wait is not None:
        context.exit(watch(context, runtime, result.job, after=0, timeout=wait, as_json=as_json))


def exit_code_of_launch(status: str) -> int:
    """What a launch's result status exits with."""
    codes = {"not_found": ExitCode.NOT_FOUND, "launch_failed": ExitCode.FAILED}
    if status in ("started", "launching", "queued"):
        return ExitCode.OK
    return codes.get(status, ExitCode.REFUSED)


def _tell(context: click.Context, result: StartResult) -> None:
    job = result.job
    if not result.ok:
        remark(f"Not started ({result.status}). {safe(result.message or '')}")
        return
    word = "Started" if result.status == "started" else "Launched"
    echo(f"{word} {one_line(job.job_type)}: job {job.uuid} (id {job.id}).")
    if result.status == "launching":
        remark("Its process has not taken the job yet; it may still fail to.")
    if on_terminal() and context.params["wait"] is None:
        remark(f"Follow it with: {subcommand(context, f'logs -f {job.id}')}")


def _read_payload(source: str | None) -> Any:
    """The payload that `--payload` names; None where there is none."""
    if source is None:
        return None
    text, where = _payload_text(source)
    try:
        payload = decode_strict(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPayload(f"The payload {where} is not JSON: {error}.") from None
    if not isinstance(payload, dict):
        raise InvalidPayload(f"The payload {where} must be a JSON object, such as '{{\"id\": 7}}'.")
    return payload


def _payload_text(source: str) -> tuple[str, str]:
    if source == "-":
        # None where it was closed: the same as an empty one.
        data = b"" if sys.stdin is None else sys.stdin.buffer.read(PAYLOAD_INPUT_MAX + 1)
        where = "on standard input"
    elif source.startswith("@"):
        where = f"in {source[1:]}"
        try:
            with Path(source[1:]).open("rb") as file:
                data = file.read(PAYLOAD_INPUT_MAX + 1)
        except OSError as error:
            raise InvalidPayload(f"{source[1:]} cannot be read: {error.strerror}.") from None
    else:
        return source, "given"
    if len(data) > PAYLOAD_INPUT_MAX:
        raise InvalidPayload(f"The payload {where} is too large.")
    try:
        return data.decode("utf-8-sig"), where
    except UnicodeDecodeError:
        raise InvalidPayload(f"The payload {where} is not UTF-8.") from None
