"""Whether a text gives away a secret, as it is or in one of the ways in which programs write it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

from .terminal import strip_escapes

SHORTEST = 4
"""Shorter secrets are found in any text and say nothing."""


@dataclass(frozen=True)
class Leak:
    """One place: which secret (its number), in which form, at which character of the text."""

    secret: int
    form: str
    place: int


def find_secrets(text: str, secrets: Iterable[str]) -> list[Leak]:
    """Where `text` holds one of `secrets`, plain, escaped, quoted for URLs, in base64 or hex.

    Colours between its characters do not hide it. The answer never holds a secret itself, so it
    can be shown in a failing test. Raises `ValueError` for a secret too short to be told from
    ordinary text.
    """
    bare, found = strip_escapes(text), list[Leak]()
    for number, secret in enumerate(secrets):
        if len(secret) < SHORTEST:
            raise ValueError(f"secret {number} is shorter than {SHORTEST} characters")
        for form, written in _forms(secret):
            place = bare.find(written)
            if place >= 0:
                found.append(Leak(number, form, place))
                break
    return found


def _forms(secret: str) -> Iterator[tuple[str, str]]:
    data = secret.encode("utf-8", "surrogatepass")
    yield "plain", secret
    yield "json", json.dumps(secret)[1:-1]
    yield "repr", repr(secret)[1:-1]
    yield "url", quote(data, safe="")
    yield "form", quote_plus(data)
    yield "hex", data.hex()
    for shift in range(3):
        # Inside a longer text its base64 depends on where it begins; the edges are cut off.
        coded = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        inner = coded[-(-shift * 4 // 3) : len(coded) - 1]
        if len(inner) >= SHORTEST:
            yield "base64", inner
            yield "base64", inner.replace("+", "-").replace("/", "_")
