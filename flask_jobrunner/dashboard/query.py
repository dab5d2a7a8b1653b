"""Query parameters: absent, sensible, clamped, or a 400. None reaches the database unchecked."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NoReturn

from flask import abort, request
from werkzeug.datastructures import MultiDict

from flask_jobrunner.model.statuses import JobStatus
from flask_jobrunner.protocol.encoding import clean_text

SEQ_MAX = 2**63 - 1
ATTEMPT_MAX = 2**31 - 1
"""What the column holds: PostgreSQL takes no greater number, not even to compare it."""
CURSOR_LENGTH = 200
TEXT_LENGTH = 255
PATH_LENGTH = 2000
_INTEGER = re.compile(r"[0-9]{1,19}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG = re.compile(r"[0-9a-f]{0,16}")


def number(name: str, *, low: int = 0, high: int = SEQ_MAX) -> int | None:
    """A whole number, clamped to its bounds; None when it is absent."""
    text = _arguments().get(name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text):
        refuse(name, "a whole number")
    return min(max(int(text), low), high)


def statuses() -> list[JobStatus]:
    """The statuses to list, each once; none for all."""
    found = [text for text in dict.fromkeys(_arguments().getlist("status")) if text]
    if not set(JobStatus).issuperset(found):
        refuse("status", "one of " + ", ".join(JobStatus))
    return [JobStatus(text) for text in found]


def text(name: str, *, most: int = TEXT_LENGTH) -> str:
    """Some words to look for, without space around them; empty when they are absent."""
    return clean_text(_arguments().get(name, "")).strip()[:most]


def word(name: str, words: tuple[str, ...]) -> str | None:
    """One of some words; None when it is absent."""
    text = _arguments().get(name)
    if text is not None and text not in words:
        refuse(name, " or ".join(words))
    return text


def cursor(name: str) -> str | None:
    """A page's cursor as a listing gave it out; what it holds is checked where it is read."""
    text = _arguments().get(name)
    if not text:
        return None
    if len(text) > CURSOR_LENGTH or not (text.isascii() and text.isprintable()):
        refuse(name, "a cursor of a page")
    return text


def choice(name: str, options: Container[str]) -> str:
    """One of a few words; empty when it is absent."""
    chosen = _arguments().get(name, "")
    if chosen and chosen not in options:
        refuse(name, "one of those that the form offers")
    return chosen


def tag(name: str) -> str:
    """A digest that a poller carries; empty when it is absent."""
    text = _arguments().get(name, "")
    if not _TAG.fullmatch(text):
        refuse(name, "a digest")
    return text


def uuids(name: str, *, most: int) -> list[str]:
    """A comma-separated list of job uuids."""
    text = _arguments().get(name, "")
    if not text:
        return []
    parts = text.split(",")
    if len(parts) > most or not all(_UUID.fullmatch(part) for part in parts):
        refuse(name, f"a list of at most {most} job uuids")
    return parts


def form_number(name: str) -> int:
    """A whole number that a form of ours carries."""
    text = request.form.get(name, "")
    if not _INTEGER.fullmatch(text):
        refuse(name, "a whole number")
    return min(int(text), SEQ_MAX - 1)


def local_path(name: str) -> str | None:
    """An address on this site, to go back to; None when it is absent."""
    text = _arguments().get(name)
    if not text:
        return None
    # Browsers take a backslash for a slash, and two slashes for another site.
    elsewhere = not text.startswith("/") or text.startswith("//") or "\\" in text
    if elsewhere or len(text) > PATH_LENGTH or not text.isprintable():
        refuse(name, "a path on this site")
    return text


def refuse(name: str, wanted: str) -> NoReturn:
    """End the request with a 400 that names the parameter, never its value."""
    abort(400, description=f"The parameter {name} must be {wanted}.")


def _arguments() -> MultiDict[str, str]:
    return request.args
