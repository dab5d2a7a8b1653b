"""Query parameters: absent, sensible, clamped, or a 400. None reaches the database unchecked."""

from __future__ import annotations

import re
from typing import NoReturn

from flask import abort, request
from werkzeug.datastructures import MultiDict

from flask_jobrunner.model.statuses import JobStatus

SEQ_MAX = 2**63 - 1
CURSOR_LENGTH = 200
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


def status() -> JobStatus | None:
    """The status to list; None for all."""
    text = _arguments().get("status")
    if not text:
        return None
    if text not in set(JobStatus):
        refuse("status", "one of " + ", ".join(JobStatus))
    return JobStatus(text)


def cursor(name: str) -> str | None:
    """A page's cursor as a listing gave it out; what it holds is checked where it is read."""
    text = _arguments().get(name)
    if not text:
        return None
    if len(text) > CURSOR_LENGTH or not (text.isascii() and text.isprintable()):
        refuse(name, "a cursor of a page")
    return text


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
