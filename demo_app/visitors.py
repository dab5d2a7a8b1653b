"""Who a browser says it is. No password: it only shows that jobs know whose they are."""

from __future__ import annotations

from flask import session

DEFAULT = "visitor"
LONGEST = 40


class NameRefused(Exception):
    """The name cannot be taken; the message is for the person who gave it."""


def current() -> str:
    """The name of whoever sends this request."""
    name = session.get("name")
    return name if isinstance(name, str) else DEFAULT


def remember(name: str) -> None:
    """Call this browser by that name from now on. Raises `NameRefused`."""
    name = name.strip()
    if not name or len(name) > LONGEST or not name.isprintable():
        raise NameRefused(f"A name has 1 to {LONGEST} characters that can be printed.")
    session["name"] = name
