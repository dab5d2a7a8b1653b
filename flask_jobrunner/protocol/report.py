"""The parent's report on how a child ended: written by the shim, read by whoever records it."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

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


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "float | None": (int, float, type(None)),
    "bool | None": (bool, type(None)),
}


def parse_report(line: bytes) -> EndReport:
    """The report in `line`; raises `ReportError`."""
    if len(line) > REPORT_MAX_BYTES:
        raise ReportError("too long")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise ReportError("not JSON") from None
    if not isinstance(values, dict) or set(values) != {f.name for f in fields(EndReport)}:
        raise ReportError("unknown or missing keys")
    if values["v"] != REPORT_VERSION or values["type"] != "report":
        raise ReportError("another version")
    for field in fields(EndReport):
        if not isinstance(values[field.name], _KINDS[str(field.type)]):
            raise ReportError(f"{field.name} of the wrong kind")
    return EndReport(**values)


def dump_report(report: EndReport) -> bytes:
    """The line, with its newline."""
    return json.dumps(asdict(report), separators=(",", ":")).encode("ascii") + b"\n"
