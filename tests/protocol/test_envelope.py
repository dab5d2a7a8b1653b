"""The envelope: exactly one strict line, or nothing is built at all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from flask_jobrunner.protocol.envelope import (
    ENVELOPE_MAX_BYTES,
    Envelope,
    EnvelopeError,
    dump_envelope,
    hash_credential,
    load_envelope,
    new_credential,
)

GOOD = Envelope(
    job_id=7,
    job_uuid="01890000-0000-7000-8000-0000000000aa",
    attempt=2,
    claim_mode="token",
    credential="c0ffee" * 10 + "beef",
    revision=None,
    config_digest="0123456789abcdef",
    fingerprint="f" * 32,
    claim_window=30.0,
    lease=15,
)


def line(**changes: Any) -> bytes:
    values = json.loads(dump_envelope(GOOD)) | changes
    values = {key: value for key, value in values.items() if value is not ...}
    return json.dumps(values).encode() + b"\n"


@pytest.mark.parametrize(
    "envelope",
    [
        GOOD,
        replace(GOOD, revision="1.10", claim_mode="trusted"),
        replace(GOOD, revision="grün 😀", job_id=2**63 - 1),
        replace(GOOD, claim_window=0.05, lease=0.5),
    ],
)
def test_comes_back_as_it_was(envelope: Envelope) -> None:
    written = dump_envelope(envelope)
    assert load_envelope(written) == envelope
    assert written.count(b"\n") == 1
    assert written.isascii()


def test_the_longest_one_fits() -> None:
    longest = replace(
        GOOD, revision="😀" * 255, job_id=2**63 - 1, config_digest="d" * 64, fingerprint="f" * 64
    )
    assert len(dump_envelope(longest)) <= ENVELOPE_MAX_BYTES
    assert load_envelope(dump_envelope(longest)) == longest


def test_one_that_would_not_fit_is_not_written() -> None:
    with pytest.raises(EnvelopeError, match="would be"):
        dump_envelope(replace(GOOD, revision="x" * 5000))


WRONG: dict[str, bytes] = {
    "nothing": b"",
    "blank line": b"\n",
    "no end of line": dump_envelope(GOOD)[:-1],
    "half of one": dump_envelope(GOOD)[:100] + b"\n",
    "one megabyte": b"x" * (1 << 20),
    "too long by one byte": line(revision="x" * 200)[:-1].ljust(ENVELOPE_MAX_BYTES) + b"\n",
    "not ASCII": line(revision="grün").replace(b"\\u00fc", "ü".encode()),
    "bytes": bytes(range(128, 256)) + b"\n",
    "two objects": dump_envelope(GOOD)[:-1] + b" {}\n",
    "two lines": dump_envelope(GOOD) * 2,
    "an array": b"[1]\n",
    "a string": b'"x"\n',
    "deep nesting": b"[" * 2000 + b"]" * 2000 + b"\n",
    "NaN": dump_envelope(GOOD).replace(b"30.0", b"NaN"),
    "infinity": dump_envelope(GOOD).replace(b"30.0", b"Infinity"),
    "beyond a float": dump_envelope(GOOD).replace(b"30.0", b"1e400"),
    "a whole number beyond a float": line(claim_window=10**400),
    "duplicate key": dump_envelope(GOOD).replace(b"{", b'{"v":1,', 1),
    "unknown key": line(more=1),
    "missing key": line(lease=...),
    "missing revision": line(revision=...),
    "a nested value": line(fingerprint={"a": 1}),
    "a list": line(credential=["c" * 64]),
}
WRONG_VALUES: dict[str, list[object]] = {
    "v": [0, 2, "1", None, True, 1.0],
    "job_id": [0, -1, 2**63, 1.0, "7", True, None],
    "attempt": [0, -1, 1.5, True, None],
    "job_uuid": ["", "x", GOOD.job_uuid.upper(), GOOD.job_uuid + "\n", None, 7],
    "claim_mode": ["", "Token", "inline", None],
    "credential": ["", "f" * 63, "f" * 65, "F" * 64, "g" * 64, "f" * 64 + "\n", None],
    "revision": ["x" * 256, 1.1, False, "a\0b", "\ud800"],
    "config_digest": [None, 1, "x" * 256],
    "fingerprint": [None, 1, "x" * 256, "a\0b"],
    "claim_window": [0, -1, "30", None, True, 367 * 86400],
    "lease": [0, -1, "15", None, False, 1e300],
}
WRONG |= {
    f"{key} {value!r}"[:60]: line(**{key: value})
    for key, values in WRONG_VALUES.items()
    for value in values
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_anything_else_is_refused_without_repeating_it(data: bytes) -> None:
    with pytest.raises(EnvelopeError) as caught:
        load_envelope(data)
    assert caught.value.code == "bad_envelope"
    assert len(str(caught.value)) < 80
    assert caught.value.__cause__ is None
    for secret in (GOOD.credential, "f" * 63, "g" * 64):
        assert secret not in str(caught.value)


def test_no_text_of_it_shows_the_credential() -> None:
    assert GOOD.credential not in repr(GOOD)
    assert GOOD.credential not in f"{GOOD!s} {[GOOD]}"


def test_credentials_are_random_and_stored_as_a_hash() -> None:
    made = {new_credential() for _ in range(50)}
    assert len(made) == 50
    assert all(len(bytes.fromhex(one)) == 32 for one in made)
    assert hash_credential("00" * 32) == (
        "60e05bd1b195af2f94112fa7197a5c88289058840ce7c6df9693756bc6250f55"
    )
