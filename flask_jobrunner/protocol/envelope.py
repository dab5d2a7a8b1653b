"""The envelope: one JSON line that a child is given on its standard input.

It names the job and carries the credential for it. Scalars only, at most 4096 bytes, every key
known and required; it is checked before the application is built.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import asdict, dataclass, fields
from typing import Any

from .checks import is_seconds, is_short, is_uuid, is_whole
from .encoding import decode_strict

ENVELOPE_VERSION = 1
ENVELOPE_MAX_BYTES = 4096
CREDENTIAL_BYTES = 32
_LONGEST = 366 * 86400

_CREDENTIAL = re.compile(r"[0-9a-f]{64}")


class EnvelopeError(ValueError):
    """The envelope is not one of ours; the text never repeats what it held."""

    code = "bad_envelope"


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """Who may run what. Durations are seconds."""

    v: int = ENVELOPE_VERSION
    job_id: int
    job_uuid: str
    attempt: int
    claim_mode: str
    credential: str
    revision: str | None
    config_digest: str
    fingerprint: str
    claim_window: float
    lease: float

    def __repr__(self) -> str:
        return f"<Envelope {self.job_uuid} attempt {self.attempt}>"


def new_credential() -> str:
    """32 random bytes in hex: whoever holds it may claim one attempt of one job, once."""
    return secrets.token_hex(CREDENTIAL_BYTES)


def hash_credential(credential: str) -> str:
    """What is stored: SHA-256 in hex."""
    return hashlib.sha256(credential.encode("ascii")).hexdigest()


def dump_envelope(envelope: Envelope) -> bytes:
    """The line, with its newline."""
    line = json.dumps(asdict(envelope), separators=(",", ":")).encode("ascii") + b"\n"
    if len(line) > ENVELOPE_MAX_BYTES:
        raise EnvelopeError(f"the envelope would be {len(line)} bytes")
    return line


def load_envelope(line: bytes) -> Envelope:
    """The envelope in `line`. Raises `EnvelopeError` for anything else, naming only the kind."""
    if len(line) > ENVELOPE_MAX_BYTES:
        raise EnvelopeError("longer than 4096 bytes")
    if not line.endswith(b"\n"):
        raise EnvelopeError("empty" if not line else "no end of line")
    try:
        values = decode_strict(line.decode("ascii"))
    except (ValueError, RecursionError):
        raise EnvelopeError("not one line of strict JSON") from None
    if not isinstance(values, dict):
        raise EnvelopeError("not an object")
    return _checked(values)


def _checked(values: dict[str, Any]) -> Envelope:
    names = {field.name for field in fields(Envelope)}
    if set(values) != names:
        raise EnvelopeError("unknown or missing keys")
    good = (
        is_whole(values["v"], ENVELOPE_VERSION, ENVELOPE_VERSION)
        and is_whole(values["job_id"], 1, 2**63 - 1)
        and is_whole(values["attempt"], 1, 2**31 - 1)
        and is_uuid(values["job_uuid"])
        and values["claim_mode"] in ("token", "trusted")
        and _is_credential(values["credential"])
        and (values["revision"] is None or is_short(values["revision"]))
        and is_short(values["config_digest"])
        and is_short(values["fingerprint"])
        and _is_duration(values["claim_window"])
        and _is_duration(values["lease"])
    )
    if not good:
        raise EnvelopeError("a value of the wrong kind or version")
    return Envelope(**values)


def _is_credential(value: object) -> bool:
    return isinstance(value, str) and _CREDENTIAL.fullmatch(value) is not None


def _is_duration(value: Any) -> bool:
    return is_seconds(value) and 0 < value < _LONGEST
