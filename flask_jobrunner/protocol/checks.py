"""Whether a value from another process is what it has to be. A bool is no number here."""

from __future__ import annotations

import re
import sys

from .encoding import clean_text

SECONDS_MAX = 366 * 86400
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_whole(value: object, low: int, high: int) -> bool:
    """An integer from `low` to `high`."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_seconds(value: object) -> bool:
    """A finite number that is not negative."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # Compared, because isfinite raises for a whole number that no float can hold.
    return number and 0 <= value <= sys.float_info.max  # type: ignore[operator]


def is_budget(value: object) -> bool:
    """Seconds that a person may set: above 0, and few enough to be added to any clock."""
    return is_seconds(value) and 0 < value <= SECONDS_MAX  # type: ignore[operator]


def is_short(value: object, limit: int = 255) -> bool:
    """Text that any database stores as it is, of at most `limit` characters."""
    return isinstance(value, str) and len(value) <= limit and clean_text(value) == value


def is_uuid(value: object) -> bool:
    """A UUID in the one form in which it is stored: lower-case, with hyphens."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None
