"""What may be stored as JSON, and as what; everything else is refused with its place."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import uuid
from collections import UserDict, namedtuple
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from flask.json.provider import DefaultJSONProvider
from hypothesis import given, settings
from hypothesis import strategies as st

from flask_jobrunner.protocol.encoding import (
    NotEncodable,
    clean_text,
    clip_bytes,
    decode_json,
    decode_strict,
    encode_json,
    safe_repr,
)


class Colour(enum.StrEnum):
    RED = "red"


class Mixed(str, enum.Enum):  # noqa: UP042 - str() of its members is not their value
    BLUE = "blue"


class Number(enum.IntEnum):
    ONE = 1


class Loud(str):
    """A string that prints as something else."""

    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


class Money(float):
    def __repr__(self) -> str:
        return "a lot"


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str]


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the untyped kind is the older one


class Hostile:
    def __repr__(self) -> str:
        raise KeyboardInterrupt


def encode(value: Any, **options: Any) -> str:
    limits: dict[str, Any] = {
        "max_bytes": 1000,
        "max_depth": 8,
        "default": DefaultJSONProvider.default,
        "what": "payload",
    }
    return encode_json(value, **limits | options)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def in_itself() -> dict[str, Any]:
    value: dict[str, Any] = {"name": "a"}
    value["self"] = [value]
    return value


def tree_with_parents() -> dict[str, Any]:
    root: dict[str, Any] = {"children": []}
    root["children"] = [{"parent": root, "children": []} for _ in range(40)]
    return root


def doubled(times: int) -> list[Any]:
    """2 ** times values in `times` lists."""
    value: list[Any] = [0]
    for _ in range(times):
        value = [value, value]
    return value


STORED: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "true"),
    ("", '""'),
    ("grüße 😀", '"gr\\u00fc\\u00dfe \\ud83d\\ude00"'),
    ("a\0b", '"a\\\\u0000b"'),
    ("\ud800", '"\\\\ud800"'),
    ("\ud83d\ude00", '"\\\\ud83d\\\\ude00"'),
    ("\u202e\u2028</script>", '"\\u202e\\u2028</script>"'),
    (2**70, str(2**70)),
    (-(2**63) - 1, str(-(2**63) - 1)),
    (0.1, "0.1"),
    (-0.0, "-0.0"),
    (1e308, "1e+308"),
    (5e-324, "5e-324"),
    ((1, 2), "[1,2]"),
    (Pair(1, "b"), '[1,"b"]'),
    ({"a": {"b": []}}, '{"a":{"b":[]}}'),
    ({"b": 1, "a": 2}, '{"b":1,"a":2}'),
    ({"\0": 1}, '{"\\\\u0000":1}'),
    (Colour.RED, '"red"'),
    (Mixed.BLUE, '"blue"'),
    (Number.ONE, "1"),
    (Loud("quiet"), '"quiet"'),
    (Money(1.5), "1.5"),
    ({Colour.RED: 1, Mixed.BLUE: 2, Loud("quiet"): 3}, '{"red":1,"blue":2,"quiet":3}'),
    (Decimal("1.10"), '"1.10"'),
    (Point(1, ["x"]), '{"x":1,"tags":["x"]}'),
    (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (date(2024, 2, 29), '"Thu, 29 Feb 2024 00:00:00 GMT"'),
    (datetime(2024, 2, 29, 12, tzinfo=UTC), '"Thu, 29 Feb 2024 12:00:00 GMT"'),
]

REFUSED: list[tuple[Any, str]] = [
    (math.nan, "payload is nan, which JSON has no word for"),
    ([math.inf], "payload[0] is inf"),
    ({"a": [1, {"b": -math.inf}]}, "payload['a'][1]['b'] is -inf"),
    (b"bytes", "payload is a builtins.bytes"),
    ({"s": {1, 2}}, "payload['s'] is a builtins.set"),
    (frozenset(), "payload is a builtins.frozenset"),
    (1j, "payload is a builtins.complex"),
    (Fraction(1, 2), "payload is a fractions.Fraction"),
    (range(3), "payload is a builtins.range"),
    (UserDict(a=1), "payload is a collections.UserDict"),
    ((n for n in (1, 2)), "payload is a builtins.generator"),
    (Hostile(), "Hostile"),
    (object, "payload is a builtins.type"),
    ({1: 2, "1": 3}, "payload has the key 1: keys must be strings"),
    ({None: 1}, "payload has the key None"),
    ({("a",): 1}, "payload has the key ('a',)"),
    ({Hostile(): 1}, "payload has the key <Hostile whose repr raised KeyboardInterrupt>"),
    ({"\0": 1, "\\u0000": 2}, "payload has the key '\\\\u0000' twice"),
    (1 << 5000, "payload is an integer of 5,001 bits"),
    (nested(9), "nested too deeply"),
    (nested(100_000), "nested too deeply"),
    (in_itself(), "payload['self'][0] contains itself"),
    (tree_with_parents(), "payload['children'][0]['parent'] contains itself"),
    (Point(1, [math.nan]), "payload['tags'][0] is nan"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("value", "text"), STORED, ids=lambda value: safe_repr(value, 30))
def test_stored_as(value: Any, text: str) -> None:
    assert encode(value) == text
    assert text.isascii()
    json.loads(text)


@pytest.mark.parametrize(
    ("value", "words"), REFUSED, ids=[str(number) for number in range(len(REFUSED))]
)
def test_refused_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(NotEncodable) as caught:
        encode(value)
    assert words in str(caught.value)
    assert caught.value.code == "not_encodable"


def test_depth_counts_containers() -> None:
    assert encode(nested(8)) == "[" * 8 + "]" * 8
    assert encode({"a": nested(7)})
    with pytest.raises(NotEncodable, match="nested too deeply"):
        encode({"a": nested(8)})


def test_size_is_the_stored_text() -> None:
    assert len(encode("x" * 998)) == 1000
    with pytest.raises(NotEncodable, match=r"payload is 1,001 bytes as JSON; at most 1,000") as big:
        encode("x" * 999)
    assert big.value.code == "too_large"
    with pytest.raises(NotEncodable) as wide:
        encode("ü" * 200)  # six bytes each once escaped
    assert wide.value.code == "too_large"


@pytest.mark.timeout(5)
@pytest.mark.parametrize("value", [doubled(28), [0] * 3_000_000], ids=["shared", "long"])
def test_what_cannot_fit_is_refused_before_it_is_copied(value: Any) -> None:
    with pytest.raises(NotEncodable) as caught:
        encode(value, max_depth=40)
    assert caught.value.code == "too_large"


def test_one_value_in_two_places_is_no_cycle() -> None:
    shared = {"a": 1}
    assert encode([shared, shared]) == '[{"a":1},{"a":1}]'


def test_without_a_default_only_json_passes() -> None:
    with pytest.raises(NotEncodable, match=r"payload is a decimal\.Decimal"):
        encode(Decimal(1), default=None)


def test_a_default_that_breaks_is_a_refusal() -> None:
    def broken(_value: object) -> object:
        raise ZeroDivisionError("of the host's provider")

    with pytest.raises(NotEncodable, match=r"builtins\.object") as caught:
        encode(object(), default=broken)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)

    cyclic = Point(1, [])
    cyclic.tags.append(cyclic)  # type: ignore[arg-type]
    with pytest.raises(NotEncodable):
        encode(cyclic)


def test_a_default_that_answers_itself_ends() -> None:
    with pytest.raises(NotEncodable):
        encode(object(), default=lambda value: value)


def test_the_value_is_not_touched() -> None:
    value = {"a\0": ["b\0", (1,)]}
    encode(value)
    assert value == {"a\0": ["b\0", (1,)]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(json_values)
def test_any_json_value_is_refused_or_comes_back(value: Any) -> None:
    text = refusal = ""
    try:
        text = encode(value, max_bytes=100_000, max_depth=40)
    except NotEncodable as error:
        refusal = str(error)
    if refusal:
        assert "which JSON has no word for" in refusal or "twice" in refusal
        return
    assert text.isascii()
    assert "\0" not in text
    assert decode_strict(text) == cleaned(value)


def cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): cleaned(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize(
    "text",
    ["NaN", "[Infinity]", '{"a":-Infinity}', "1e400", "[-1e999]", '{"a":1,"a":2}', "1 2", "", "{"],
)
def test_strict_reading_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_strict(text)


def test_soft_reading_shows_nothing_for_what_it_cannot_read() -> None:
    assert decode_json(None) is None
    assert decode_json('{"a":[1]}') == {"a": [1]}
    assert decode_json("{broken") is None
    assert decode_json("[" * 100_000) is None


@pytest.mark.parametrize(
    ("text", "limit", "clipped"),
    [
        ("abc", 3, "abc"),
        ("abc", 2, "ab"),
        ("aü", 2, "a"),
        ("aü", 3, "aü"),
        ("😀", 3, ""),
        ("", 0, ""),
    ],
)
def test_clipping_keeps_characters_whole(text: str, limit: int, clipped: str) -> None:
    assert clip_bytes(text, limit) == clipped


def test_clipped_text_can_always_be_sent() -> None:
    assert clip_bytes("a\ud800b", 100).encode()


def test_clean_text_makes_nul_and_surrogates_visible() -> None:
    assert clean_text("a\0\ud800\udfffb\t\n\x1b") == "a\\u0000\\ud800\\udfffb\t\n\x1b"
    text = "nothing to do"
    assert clean_text(text) is text


def test_safe_repr_never_raises_and_is_bounded() -> None:
    assert safe_repr(Hostile()) == "<Hostile whose repr raised KeyboardInterrupt>"
    assert len(safe_repr("x" * 10_000, 100)) == 100
    assert safe_repr("\ud800\0").isascii()
    assert safe_repr({"a": [1, "b"]}) == "{'a': [1, 'b']}"
    assert safe_repr(1 << 20_000).startswith("<int whose repr raised")


@pytest.mark.timeout(5)
@pytest.mark.parametrize("value", [doubled(28), in_itself(), nested(100_000), ["x"] * 10**6])
def test_safe_repr_of_a_huge_value_is_quick(value: Any) -> None:
    assert 0 < len(safe_repr(value)) <= 2000
