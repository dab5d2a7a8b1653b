"""JSON and text as we store them: strict, bounded, and the same on every database.

Databases disagree about NaN, NUL, lone surrogates and deep nesting, so all of it is settled
here, in Python, before anything is sent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

# C0 controls other than tab and newline, DEL is harmless; lone surrogates cannot be encoded.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class NotEncodable(ValueError):
    """A value that cannot be stored as JSON; `code` is `too_large` or `not_encodable`."""

    def __init__(self, message: str, code: str = "not_encodable") -> None:
        super().__init__(message)
        self.code = code


def _visible(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def clean_text(text: str) -> str:
    """`text` with NUL and lone surrogates replaced by a visible escape."""
    return _UNSTORABLE.sub(_visible, text) if _UNSTORABLE.search(text) else text


def clip_bytes(text: str, limit: int) -> str:
    """At most `limit` UTF-8 bytes of `text`, cut on a character boundary."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[:limit].decode("utf-8", "ignore")


def safe_repr(value: object, limit: int = 2000) -> str:
    """`repr(value)`, cleaned and clipped; never raises."""
    try:
        text = repr(value)
    except BaseException as error:
        text = f"<{type(value).__qualname__} whose repr raised {type(error).__name__}>"
    return clip_bytes(clean_text(text), limit)


def encode_json(
    value: Any,
    *,
    max_bytes: int,
    max_depth: int,
    default: Callable[[Any], Any] | None = None,
    what: str = "value",
) -> str:
    """`value` as strict JSON text in ASCII.

    `default` turns what JSON does not know into what it does (Flask's `app.json.default` takes
    dates, UUIDs, Decimals and dataclasses). Raises `NotEncodable` with the place of the fault.
    """
    ready = _checked(value, max_depth, default, what)
    try:
        text = json.dumps(ready, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError, TypeError) as error:
        raise NotEncodable(f"{what} cannot be written as JSON: {error}") from error
    if len(text) > max_bytes:
        raise NotEncodable(
            f"{what} is {len(text):,} bytes as JSON; at most {max_bytes:,} are stored", "too_large"
        )
    return text


def _checked(value: Any, depth: int, default: Callable[[Any], Any] | None, where: str) -> Any:
    """A copy with clean strings; raises at the first thing JSON cannot hold exactly."""
    if value is None or isinstance(value, (bool, str, int, float)):
        return _scalar(value, where)
    if depth <= 0:
        raise NotEncodable(f"{where} is nested too deeply")
    if isinstance(value, dict):
        return {
            _key(key, where): _checked(item, depth - 1, default, f"{where}[{safe_repr(key, 40)}]")
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            _checked(item, depth - 1, default, f"{where}[{index}]")
            for index, item in enumerate(value)
        ]
    return _converted(value, depth, default, where)


def _scalar(value: str | float | None, where: str) -> Any:
    # str(), int() and float() because subclasses (enums, numpy floats) may print differently.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(str.__str__(value))
    if isinstance(value, int):
        if value.bit_length() > 4096:
            raise NotEncodable(f"{where} is an integer of {value.bit_length():,} bits")
        return int(value)
    if not math.isfinite(value):
        raise NotEncodable(f"{where} is {value!r}, which JSON has no word for")
    return float(value)


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise NotEncodable(
            f"{where} has the key {safe_repr(key, 60)}: keys must be strings, "
            "or two of them may become one"
        )
    return clean_text(str(key))


def _converted(value: Any, depth: int, default: Callable[[Any], Any] | None, where: str) -> Any:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if default is None:
        raise NotEncodable(f"{where} is a {name}, which JSON cannot hold")
    try:
        converted = default(value)
    except TypeError as error:
        raise NotEncodable(f"{where} is a {name}, which JSON cannot hold") from error
    return _checked(converted, depth - 1, default, where)


def decode_json(text: str | None) -> Any:
    """The stored value, or None where it is missing or unreadable: pages fail softly."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def decode_strict(text: str) -> Any:
    """`text` as JSON; refuses NaN, infinities and duplicate keys with `ValueError`."""
    return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate keys")
    return result
