"""What `start` and `enqueue` are told of a new job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from flask_jobrunner.model.errors import InvalidPayload
from flask_jobrunner.protocol.encoding import decode_strict

F = TypeVar("F", bound=Callable[..., Any])
PAYLOAD_INPUT_MAX = 128 << 20

_OPTIONS = (
    click.option(
        "--payload",
        metavar="JSON|@FILE|-",
        help="A JSON object: as it is, from a file, or from stdin.",
    ),
    click.option("--lock-key", help="Only while no active job has this key."),
    click.option("--title", help="What pages call the job."),
    click.option("--owner", help="Whose job it is."),
    click.option(
        "--file",
        "files",
        multiple=True,
        metavar="NAME=PATH",
        callback=lambda _context, _option, given: _read_files(given),
        help="A file for the job, by the name that its handler asks for; may be repeated.",
    ),
    click.option("--reference", help="What of yours it is about, such as import:42."),
)


def new_job_options(command: F) -> F:
    """--payload, --lock-key, --title, --owner, --file, --reference."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_payload(source: str | None) -> Any:
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


def _read_files(given: Sequence[str]) -> dict[str, Path]:
    files = dict[str, Path]()
    for one in given:
        name, found, path = one.partition("=")
        if not found or not path:
            raise click.BadParameter(f"{one!r} is not NAME=PATH, such as orders.csv=./in.csv.")
        if name in files:
            raise click.BadParameter(f"{name!r} is given twice.")
        files[name] = Path(path)
    return files


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
