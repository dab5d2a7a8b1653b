"""A secret is found in every form in which a program may have written it."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote_plus

import pytest

from flask_jobrunner.protocol.leaks import find_secrets

SECRET = 'pa"ß/w+rd 42'


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"a {SECRET} b",
        json.dumps({"x": SECRET}),
        repr({"x": SECRET}),
        quote_plus(SECRET),
        SECRET.encode().hex(),
        *(base64.b64encode(b"u" * n + SECRET.encode() + b"tail").decode() for n in range(7)),
        *(base64.urlsafe_b64encode(b"u" * n + SECRET.encode()).decode() for n in range(3)),
        f"\x1b[31m{SECRET[:4]}\x1b[0m{SECRET[4:]}",
    ],
)
def test_a_secret_is_found(text: str) -> None:
    found = find_secrets(text, ["another", SECRET])
    assert [leak.secret for leak in found] == [1]
    assert SECRET not in repr(found)


def test_what_is_not_there_is_not_found() -> None:
    assert find_secrets("nothing to see", ["see nothing", SECRET]) == []


def test_a_secret_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="secret 0 is shorter"):
        find_secrets("abc", ["abc"])
