"""JSON and text as we store them: strict, bounded, and the same on every database.

Databases disagree about NaN, NUL, lone surrogates and deep nesting, so all of it is settled
here, in Python, before anything is sent.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable
from typing import Any

# PostgreSQL stores no NUL, and no driver can encode a lone surrogate.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


# Our own, made early: a job that replaces json.dumps must still be able to end.
_dump = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_load = json.JSONDecoder().decode


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
    """At most `limit` UTF-8 bytes of `text`, cut on a character boundary; surrogates become `?`."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def split_chunks(text: str, limit: int) -> list[str]:
    """`text` in pieces of at most `limit` UTF-8 bytes, never cut inside a character."""
    if len(text) * 4 <= limit:
        return [text]
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return [text]
    pieces, start = [], 0
    while start < len(data):
        end = min(start + limit, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(data[start:end].decode("utf-8"))
        start = end
    return pieces


def spell_out(text: str | None, limit: int) -> str | None:
    """`text` in ASCII, other characters as escapes; at most `limit` of it."""
    return None if text is None else text.encode("ascii", "backslashreplace").decode()[:limit]


# Few levels, since containers that share others may hold more values than there are atoms.
_shortened = reprlib.Repr()
_shortened.maxlevel = 6
_shortened.maxdict = _shortened.maxlist = _shortened.maxtuple = _shortened.maxset = 50
_shortened.maxstring = _shortened.maxother = _shortened.maxlong = 4000


def safe_repr(value: object, limit: int = 2000) -> str:
    """`repr(value)`, cleaned and clipped; never raises, and takes no time for a huge value."""
    try:
        text = repr(value[:limit]) if type(value) is str else _shortened.repr(value)
    except BaseException as error:  # noqa: BLE001 - a repr may do anything
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
    ready = _Copier(max_bytes, default, what).copy(value, max_depth, what)
    try:
        text = _dump(ready)
    except (ValueError, RecursionError, TypeError) as error:
        raise NotEncodable(f"{what} cannot be written as JSON: {error}") from error
    if len(text) > max_bytes:
        raise NotEncodable(
            f"{what} is {len(text):,} bytes as JSON; at most {max_bytes:,} are stored", "too_large"
        )
    return text


class _Copier:
    """Copies a value with clean strings; raises at the first thing JSON cannot hold exactly."""

    def __init__(self, max_bytes: int, default: Callable[[Any], Any] | None, what: str) -> None:
        self._max_bytes = max_bytes
        self._default = default
        self._what = what
        # Each value takes a byte or more. Counted, because containers that share others may hold
        # more values than there are atoms, and a copy would never end.
        self._room = max_bytes
        self._open: set[int] = set()

    def copy(self, value: Any, depth: int, where: str) -> Any:
        """`value` as dicts, lists and scalars; `where` is its place, for the error."""
        self._room -= 1
        if self._room < 0:
            raise NotEncodable(
                f"{self._what} holds more values than fit into {self._max_bytes:,} bytes",
                "too_large",
            )
        if value is None or isinstance(value, (bool, str, int, float)):
            return _scalar(value, where)
        if depth <= 0:
            raise NotEncodable(f"{where} is nested too deeply")
        if id(value) in self._open:
            raise NotEncodable(f"{where} contains itself")
        self._open.add(id(value))
        try:
            return self._container(value, depth - 1, where)
        finally:
            self._open.discard(id(value))

    def _container(self, value: Any, depth: int, where: str) -> Any:
        if isinstance(value, dict):
            return self._mapping(value, depth, where)
        if isinstance(value, (list, tuple)):
            return [self.copy(item, depth, f"{where}[{index}]") for index, item in enumerate(value)]
        return self.copy(self._converted(value, where), depth, where)

    def _mapping(self, value: dict[Any, Any], depth: int, where: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = _key(key, where)
            if name in result:
                raise NotEncodable(f"{where} has the key {safe_repr(name, 60)} twice")
            result[name] = self.copy(item, depth, f"{where}[{safe_repr(key, 40)}]")
        return result

    def _converted(self, value: Any, where: str) -> Any:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        refusal = NotEncodable(f"{where} is a {kind}, which JSON cannot hold")
        if self._default is None:
            raise refusal
        try:
            return self._default(value)
        except Exception as error:
            raise refusal from error


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
        raise NotEncodable(f"{where} is {float(value)!r}, which JSON has no word for")
    return float(value)


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise NotEncodable(
            f"{where} has the key {safe_repr(key, 60)}: keys must be strings, "
            "or two of them may become one"
        )
    return clean_text(str.__str__(key))


def decode_json(text: str | None) -> Any:
    """The stored value, or None where it is missing or unreadable: pages fail softly."""
    if text is None:
        return None
    try:
        return _load(text)
    except (ValueError, RecursionError):
        return None


def decode_strict(text: str) -> Any:
    """`text` as JSON; refuses NaN, infinities and duplicate keys with `ValueError`."""
    return _load_strict(text)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is beyond what a float can hold")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate keys")
    return result


_load_strict = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_duplicates
).decode
