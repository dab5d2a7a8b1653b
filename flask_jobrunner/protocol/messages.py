"""What a child tells its parent: versioned JSON lines of at most 4096 bytes."""

from __future__ import annotations

import json
from typing import Any

MESSAGE_VERSION = 1
MESSAGE_MAX_BYTES = 4096

# type -> the keys it has beside `v` and `type`, with what they may hold.
_SHAPES: dict[str, dict[str, tuple[type, ...]]] = {
    "booted": {},
    "claimed": {"uuid": (str,), "attempt": (int,), "token": (str,), "nonce": (str,)},
    "refused": {"code": (str,)},
    "started": {"budget": (int, float, type(None)), "grace": (int, float)},
    "stopping": {"reason": (str,), "grace": (int, float)},
}


def dump_message(kind: str, **values: Any) -> bytes:
    """The line, with its newline."""
    if set(values) != set(_SHAPES[kind]):
        raise ValueError(f"{kind} takes {sorted(_SHAPES[kind])}")
    message = {"v": MESSAGE_VERSION, "type": kind, **values}
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def parse_message(line: bytes) -> dict[str, Any] | None:
    """The message in `line`, or None where it is not exactly one of ours."""
    if len(line) > MESSAGE_MAX_BYTES:
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("v") != MESSAGE_VERSION:
        return None
    shape = _SHAPES.get(str(message.get("type")))
    if shape is None or set(message) != {"v", "type", *shape}:
        return None
    if any(
        not isinstance(message[key], kinds) or isinstance(message[key], bool)
        for key, kinds in shape.items()
    ):
        return None
    return message
