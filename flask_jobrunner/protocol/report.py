"""The parent's report on how a child ended: written by the shim, read by whoever records it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from .checks import is_seconds, is_short, is_uuid, is_whole
from .encoding import clean_text, decode_strict

REPORT_VERSION = 1
REPORT_MAX_BYTES = 256 * 1024


class ReportError(ValueError):
    """Not a report of ours."""


@dataclass(frozen=True, kw_only=True)
class EndReport:
    """How a child ended. Sizes are bytes, durations seconds."""

    v: int = REPORT_VERSION
    type: str = "report"
    uuid: str
    attempt: int
    token: str | None
    """The worker token of the claim, if there was one."""
    nonce: str | None
    """What marks structured records in the output that was left over."""
    booted: bool
    claimed: bool
    started: bool
    refused: str | None
    exit_code: int | None
    signal: int | None
    killed: str | None
    """Why the parent ended it: `claim_window`, or a stop reason."""
    peak_rss: int | None
    cpu: float | None
    wall: float
    oom: bool | None
    """Whether the cgroup says that memory ran out; None where it cannot be told."""
    stdout: str
    stderr: str
    stdout_dropped: int
    stderr_dropped: int
    fault: str
    """What faulthandler wrote."""
    spawn_error: str | None
    escaped: int
    """Processes that left the job's session and were let be."""

    def output(self) -> tuple[bytes, bytes]:
        """The undelivered bytes of stdout and stderr."""
        return _decoded(self.stdout), _decoded(self.stderr)

    def evidence(self) -> dict[str, Any]:
        """What is kept beside the attempt: all but output and secrets."""
        left_out = {"v", "type", "uuid", "attempt", "token", "nonce", "stdout", "stderr"}
        return {key: value for key, value in asdict(self).items() if key not in left_out}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _key(value: object) -> bool:
    return is_short(value, 64)


def _count(value: object) -> bool:
    return is_whole(value, 0, 2**63 - 1)


def _number(value: object) -> bool:
    return is_whole(value, -(2**31), 2**31 - 1)


_CHECKS: dict[str, Callable[[object], bool]] = {
    "v": lambda value: is_whole(value, REPORT_VERSION, REPORT_VERSION),
    "type": lambda value: value == "report",
    "uuid": is_uuid,
    "attempt": lambda value: is_whole(value, 1, 2**31 - 1),
    **dict.fromkeys(("token", "nonce"), _key),
    **dict.fromkeys(("booted", "claimed", "started", "oom"), _flag),
    **dict.fromkeys(("exit_code", "signal"), _number),
    **dict.fromkeys(("peak_rss", "stdout_dropped", "stderr_dropped", "escaped"), _count),
    **dict.fromkeys(("cpu", "wall"), is_seconds),
    **dict.fromkeys(("refused", "killed", "stdout", "stderr", "fault", "spawn_error"), _text),
}
_MAY_BE_NULL = {field.name for field in fields(EndReport) if str(field.type).endswith("None")}


def parse_report(line: bytes) -> EndReport:
    """The report in `line`, which can be stored as it is; raises `ReportError`."""
    if len(line) > REPORT_MAX_BYTES:
        raise ReportError("too long")
    try:
        values = decode_strict(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ReportError("not strict JSON") from None
    if not isinstance(values, dict) or set(values) != set(_CHECKS):
        raise ReportError("unknown or missing keys")
    for name, value in values.items():
        if not (_CHECKS[name](value) or (value is None and name in _MAY_BE_NULL)):
            raise ReportError(f"{name} of the wrong kind")
        if isinstance(value, str):
            values[name] = clean_text(value)
    return EndReport(**values)


def dump_report(report: EndReport) -> bytes:
    """The line, with its newline."""
    return json.dumps(asdict(report), separators=(",", ":")).encode("ascii") + b"\n"
