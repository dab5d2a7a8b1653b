"""What one SQL statement does to the transaction it runs in, told from its text.

The text is the only thing that flushes, bulk writes, Core statements and `text()` have in common.
Where it leaves doubt it counts as a write: a needless commit is harmless, a lost change is not.
A function that writes when it is selected cannot be seen here.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple


class Does(Enum):
    """The kinds of statement that matter to a transaction."""

    WRITE = auto()
    SAVEPOINT = auto()
    RELEASE = auto()
    ROLLBACK_TO = auto()
    ROLLBACK = auto()


class Effect(NamedTuple):
    """What a statement does, and the savepoint it names (lower case, without quotes)."""

    does: Does
    savepoint: str = ""


WRITE = Effect(Does.WRITE)

# Everything that is not listed here writes.
_READING = re.compile(
    r"abort|analyze|attach|begin|checkpoint|close|commit|deallocate|declare|desc|describe|detach"
    r"|discard|end|explain|fetch|flush|handler|help|kill|listen|lock|move|notify|open|optimize"
    r"|pragma|prepare|release|reset|rollback|savepoint|select|set|show|start|table|unlisten|unlock"
    r"|use|vacuum|values|with|xa"
)
# MySQL and MariaDB run what stands in /*! … */.
_BLOCK_COMMENT = r"/\*(?!M?!)(?:[^*]|\*(?!/))*+\*/"
_LEADING = re.compile(rf"\A(?:{_BLOCK_COMMENT}|--[^\n]*+|[\s(;])++")
_NO_WORD = re.compile(r"\W")
_NAME = r"[\"`\[]?(\w+)"
_SAVEPOINTS = (
    (Does.SAVEPOINT, re.compile(rf"savepoint\s+{_NAME}", re.IGNORECASE)),
    (Does.RELEASE, re.compile(rf"release\s+(?:savepoint\s+)?{_NAME}", re.IGNORECASE)),
    (
        Does.ROLLBACK_TO,
        re.compile(
            rf"rollback\s+(?:(?:work|transaction)\s+)?to\s+(?:savepoint\s+)?{_NAME}", re.IGNORECASE
        ),
    ),
    (Does.ROLLBACK, re.compile(r"rollback(?!\s+prepared)()", re.IGNORECASE)),
)

# Whether a backslash escapes a quote depends on the server, so both readings are tried. `5--3` is
# a difference on MySQL: only what is a comment everywhere is taken for one.
_QUOTED = tuple(
    re.compile(
        rf"{literal}|\"[^\"]*+\"|`[^`]*+`|{_BLOCK_COMMENT}|--[ \t][^\n]*+"
        r"|\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$",
        re.DOTALL,
    )
    for literal in (r"'(?:[^']|'')*+'", r"'(?:[^'\\]|\\.|'')*+'")
)
_LOCKING = re.compile(r"\bfor\s+(?:no\s+key\s+)?update\b", re.IGNORECASE)
_WRITING = re.compile(
    r"(?<![\w.$])(?:insert\b(?!\s*\()|update\s|delete\s|merge\s|replace\s+(?:into\s|\w+\s*\())",
    re.IGNORECASE,
)
_INTO_TABLE = re.compile(r"\binto\b(?!\s*(?:@|outfile|dumpfile))", re.IGNORECASE)

_LONGEST_KEPT = 4096


def effect_of(statement: str) -> Effect | None:
    """What the statement does, or None when it changes nothing. Never raises."""
    # Long texts are mostly batches of values that never come again.
    if len(statement) > _LONGEST_KEPT:
        return _read(statement)
    return _remembered(statement)


def _read(statement: str) -> Effect | None:
    text = _LEADING.sub("", statement, count=1)
    if not text:
        return None
    word = _NO_WORD.split(text[:40], maxsplit=1)[0].lower()
    if not _READING.fullmatch(word) or _carries_a_write(word, text):
        return WRITE
    return _savepoint_effect(text) if word in ("savepoint", "release", "rollback") else None


_remembered = lru_cache(maxsize=512)(_read)


def _savepoint_effect(text: str) -> Effect | None:
    for does, words in _SAVEPOINTS:
        named = words.match(text)
        if named:
            return Effect(does, named.group(1).lower())
    return None


def _carries_a_write(word: str, text: str) -> bool:
    if ";" in text.rstrip("; \t\r\n") or word == "analyze":
        return _mentions(_WRITING, text)
    if word == "with":
        return _mentions(_WRITING, text) or _mentions(_INTO_TABLE, text)
    if word == "select":
        return "into" in text.lower() and _mentions(_INTO_TABLE, text)
    if word in ("explain", "desc", "describe"):
        return "analyze" in text.lower() and _mentions(_WRITING, text)
    # MariaDB: SET STATEMENT max_statement_time = 1 FOR UPDATE …
    return word == "set" and re.match(r"set\s+statement\s", text, re.IGNORECASE) is not None


def _mentions(pattern: re.Pattern[str], text: str) -> bool:
    return any(pattern.search(_LOCKING.sub(" ", quoted.sub(" x ", text))) for quoted in _QUOTED)


_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*+'?")


def headline(statement: str, limit: int = 120) -> str:
    """The first line of a statement, without comments before it and the text of its literals."""
    hidden = _LITERAL.sub("'…'", _LEADING.sub("", statement, count=1)[:4000])
    line = " ".join(hidden.split("\n", 1)[0].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
