"""What a child says to its parent: exact shapes, and anything else is noise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flask_jobrunner.protocol.messages import MESSAGE_MAX_BYTES, dump_message, parse_message

GOOD: list[tuple[str, dict[str, Any]]] = [
    ("booted", {}),
    ("claimed", {"uuid": "u", "attempt": 1, "token": "t", "nonce": "n"}),
    ("refused", {"code": "bad_credential"}),
    ("started", {"budget": None, "grace": 5}),
    ("started", {"budget": 0.5, "grace": 0.0}),
    ("stopping", {"reason": "cancel", "grace": 5.5}),
    ("returned", {"seconds": 660.0}),
]


@pytest.mark.parametrize(("kind", "values"), GOOD)
def test_comes_back_as_it_was(kind: str, values: dict[str, Any]) -> None:
    line = dump_message(kind, **values)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse_message(line) == {"v": 1, "type": kind, **values}


def test_only_known_shapes_are_written() -> None:
    with pytest.raises(ValueError, match="code"):
        dump_message("refused")
    with pytest.raises(ValueError, match="grace"):
        dump_message("started", budget=1, grace=2, more=3)
    with pytest.raises(ValueError, match="4096"):
        dump_message("refused", code="x" * MESSAGE_MAX_BYTES)
    with pytest.raises(ValueError, match=r"."):
        dump_message("stopping", reason="cancel", grace=float("nan"))


def message(**values: Any) -> bytes:
    return json.dumps(values).encode() + b"\n"


NOISE = {
    "nothing": b"",
    "blank": b"\n",
    "a print": b"Loading the application...\n",
    "bytes": bytes(range(256)) + b"\n",
    "bad UTF-8": b'{"v":1,"type":"refused","code":"\xff"}\n',
    "truncated": b'{"v":1,"type":"boo',
    "too long": message(v=1, type="refused", code="x" * MESSAGE_MAX_BYTES),
    "one megabyte": b"{" * (1 << 20),
    "deep": b"[" * 4000 + b"\n",
    "two in one": b'{"v":1,"type":"booted"}{"v":1,"type":"booted"}\n',
    "a number": b"1\n",
    "a list": b'["booted"]\n',
    "null": b"null\n",
    "other version": message(v=2, type="booted"),
    "version true": message(v=True, type="booted"),
    "version 1.0": message(v=1.0, type="booted"),
    "version as text": message(v="1", type="booted"),
    "no version": message(type="booted"),
    "no type": message(v=1),
    "unknown type": message(v=1, type="report"),
    "type null": message(v=1, type=None),
    "type a list": message(v=1, type=["booted"]),
    "an extra key": message(v=1, type="booted", more=1),
    "a missing key": message(v=1, type="refused"),
    "duplicate key": b'{"v":1,"type":"refused","code":"a","code":"b"}\n',
    "wrong kind": message(v=1, type="refused", code=7),
    "attempt true": message(v=1, type="claimed", uuid="u", attempt=True, token="t", nonce="n"),
    "attempt 0": message(v=1, type="claimed", uuid="u", attempt=0, token="t", nonce="n"),
    "attempt 1.0": message(v=1, type="claimed", uuid="u", attempt=1.0, token="t", nonce="n"),
    "grace true": message(v=1, type="stopping", reason="cancel", grace=True),
    "grace negative": message(v=1, type="stopping", reason="cancel", grace=-1),
    "grace NaN": b'{"v":1,"type":"stopping","reason":"cancel","grace":NaN}\n',
    "budget infinite": b'{"v":1,"type":"started","budget":1e999,"grace":1}\n',
}


@pytest.mark.parametrize("line", NOISE.values(), ids=NOISE.keys())
def test_anything_else_is_noise(line: bytes) -> None:
    assert parse_message(line) is None
