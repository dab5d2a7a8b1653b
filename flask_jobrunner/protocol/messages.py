"""What a child tells its parent: versioned JSON lines of at most 4096 bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .checks import is_seconds, is_whole
from .encoding import decode_strict

MESSAGE_VERSION = 1
MESSAGE_MAX_BYTES = 4096
STANDBY_MAX_AGE = 600.0
"""Seconds after which a process that stands by is not given a job any more."""

# Made early: a handler that replaces json.dumps does not silence its own watchdog.
_dump = json.JSONEncoder(separators=(",", ":")).encode


def _text(value: object) -> bool:
    return isinstance(value, str)


def _attempt(value: object) -> bool:
    return is_whole(value, 1, 2**31 - 1)


def _budget(value: object) -> bool:
    return value is None or is_seconds(value)


# type -> the keys it has beside `v` and `type`, with what each must be.
_SHAPES: dict[str, dict[str, Callable[[object], bool]]] = {
    "booted": {},
    "warm": {"match": _text},
    "claimed": {"uuid": _text, "attempt": _attempt, "token": _text, "nonce": _text},
    "refused": {"code": _text},
    "started": {"budget": _budget, "grace": is_seconds},
    "stopping": {"reason": _text, "grace": is_seconds},
    "returned": {"seconds": is_seconds},
    "holding": {"seconds": is_seconds},
}


def dump_message(kind: str, **values: Any) -> bytes:
    """The line, with its newline. Raises `ValueError` for what `parse_message` would not take."""
    message = {"v": MESSAGE_VERSION, "type": kind, **values}
    line = _dump(message).encode("ascii") + b"\n"
    if parse_message(line) is None:
        keys = ", ".join(_SHAPES[kind])
        raise ValueError(f"{kind} is one line of {MESSAGE_MAX_BYTES} bytes with: {keys}")
    return line


def parse_message(line: bytes) -> dict[str, Any] | None:
    """The message in `line`, or None where it is not exactly one of ours."""
    if len(line) > MESSAGE_MAX_BYTES:
        return None
    try:
        message = decode_strict(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not is_whole(message.get("v"), 1, MESSAGE_VERSION):
        return None
    shape = _SHAPES.get(str(message.get("type")))
    if shape is None or set(message) != {"v", "type", *shape}:
        return None
    return message if all(fits(message[key]) for key, fits in shape.items()) else None
