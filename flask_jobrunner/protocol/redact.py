"""Hiding what is secret in text and values that people, logs or rows will show.

It errs on the side of hiding too much, costs linear time, and never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from .terminal import strip_escapes

MASK = "********"
DEFAULT_REDACT_KEYS = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "signing_key",
    "encryption_key",
    "authorization",
    "cookie",
    "credential",
    "dsn",
    "jwt",
)
TEXT_LIMIT = 4 * 1024 * 1024  # characters
DEPTH_LIMIT = 64
NODE_LIMIT = 1_000_000
KEY_LINES = 400
"""Lines for which a private key that was begun is waited for to end."""


def mask_value(value: Any, keys: Iterable[str] = DEFAULT_REDACT_KEYS) -> Any:
    """A copy of `value` in which everything below a secret key is masked.

    Keys match by substring, whatever their case and style (`apiKey`, `API-KEY`); one of three
    letters or fewer must be a whole word. Strings elsewhere go through `mask_text`. `None`,
    booleans and empty strings stay visible: that something is not set is no secret.
    """
    try:
        return _Masker(_matcher(tuple(keys))).masked(value, DEPTH_LIMIT)
    except Exception:  # noqa: BLE001 - a page must not fail over an object that cannot be read
        return MASK


def mask_text(text: str, keys: Iterable[str] = DEFAULT_REDACT_KEYS) -> str:
    """`text` with masked URL credentials, `key=value` secrets, authorisation and private keys."""
    try:
        if len(text) > TEXT_LIMIT:
            left_out = len(text) - TEXT_LIMIT
            return mask_text(text[:TEXT_LIMIT], keys) + f" [{left_out} characters not shown]"
        return _masked_text(text, _matcher(tuple(keys)))
    except Exception:  # noqa: BLE001 - the same, and what cannot be checked is not shown
        return MASK


def mask_argv(argv: Iterable[str], keys: Iterable[str] = DEFAULT_REDACT_KEYS) -> tuple[str, ...]:
    """The words of a command, without what follows `--password` and its like."""
    is_secret, masked, hide = _matcher(tuple(keys)).is_secret, list[str](), False
    for word in argv:
        masked.append(MASK if hide and not word.startswith("-") else mask_text(word, keys))
        hide = word.startswith("-") and "=" not in word and is_secret(word.lstrip("-"))
    return tuple(masked)


class LineMasker:
    """`mask_text` for one text that comes line by line, in batches.

    A look at a whole batch spares most of the work; and a private key is hidden although its
    lines by themselves are nothing but letters.
    """

    def __init__(self, keys: Iterable[str] = DEFAULT_REDACT_KEYS) -> None:
        self._keys = tuple(keys)
        self._matcher = _matcher(self._keys)
        self._in_key = 0

    def lines(self, lines: list[str]) -> list[str]:
        """The lines, in order, with masked secrets."""
        try:
            if not self._in_key and not self._may_hold(lines):
                return lines
        except Exception:  # noqa: BLE001 - what cannot be checked is not shown
            return [MASK for _ in lines]
        return [self._line(line) for line in lines]

    def _may_hold(self, lines: list[str]) -> bool:
        text = "\n".join(lines)
        if self._matcher.may_hold(text):
            return True
        plain = "\n".join(map(strip_escapes, lines)) if _has_escapes(text) else text
        return plain != text and self._matcher.may_hold(plain)

    def part(self, text: str) -> str:
        """A part of one long line."""
        return mask_text(text, self._keys)

    def _line(self, line: str) -> str:
        if self._in_key:
            self._in_key -= 1
            end = _KEY_END.search(line)
            if end:
                self._in_key = 0
                return MASK + line[end.start() :]
            # Without its end, a key stops where its lines stop looking like one.
            if _KEY_BODY.fullmatch(line):
                return MASK
            self._in_key = 0
        begins = [found.end() for found in _KEY_BEGIN.finditer(line)]
        if begins and not _KEY_END.search(line, begins[-1]):
            self._in_key = KEY_LINES
        return mask_text(line, self._keys)


def _has_escapes(text: str) -> bool:
    return "\x1b" in text or "\x9b" in text


class _Matcher:
    """Whether a name is that of a secret; and whether a text can hold such a name at all."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        named = [_plain(key) for key in keys if key.strip()]
        self.short = frozenset(key for key in named if len(key) <= 3)
        self.long = tuple(key for key in named if len(key) > 3)
        self.hints = tuple(sorted({hint for key in named for hint in _hints(key)})) + _MARKS
        self.is_secret: Callable[[str], bool] = lru_cache(maxsize=1024)(self._is_secret)

    def _is_secret(self, name: str) -> bool:
        plain = _plain(name)
        if any(key in plain for key in self.long):
            return True
        return not self.short.isdisjoint(plain.split("_"))

    def may_hold(self, text: str) -> bool:
        """Whether `text` needs the patterns; most lines do not, and this is ten times faster."""
        lowered = text.lower()
        # A loop, because a generator would double what every printed line costs.
        for hint in self.hints:
            if hint in lowered:
                return True
        return "@" in text and "://" in text


# Lower-case texts without which the patterns for tokens, schemes and keys cannot match.
_MARKS = ("private key", "bearer ", "basic ", "digest ", "negotiate ", "akia", "ghp_", "gho_",
          "ghu_", "ghs_", "ghr_", "xox", "k_live_", "eyj")  # fmt: skip
_WORD_EDGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def _plain(name: str) -> str:
    return _WORD_EDGE.sub("_", name[:256]).lower().strip("_")


def _hints(key: str) -> Iterable[str]:
    longest = max(key.split("_"), key=len)
    if len(longest) > 3:
        return (longest,)
    return {key.replace("_", joint) for joint in ("_", "-", " ", ".", "")}


@lru_cache(maxsize=16)
def _matcher(keys: tuple[str, ...]) -> _Matcher:
    return _Matcher(keys)


class _Masker:
    """One walk through a value; the number of things it looks at is bounded."""

    def __init__(self, matcher: _Matcher) -> None:
        self.matcher = matcher
        self.left = NODE_LIMIT

    def masked(self, value: Any, depth: int) -> Any:
        self.left -= 1
        if isinstance(value, str):
            return _masked_text(value, self.matcher) if len(value) <= TEXT_LIMIT else MASK
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if depth <= 0 or self.left <= 0:
            return MASK
        if isinstance(value, Mapping):
            return {key: self._below(key, item, depth) for key, item in value.items()}
        if isinstance(value, (list, tuple, AbstractSet)):
            return [self.masked(item, depth - 1) for item in value]
        return value

    def _below(self, key: object, item: Any, depth: int) -> Any:
        if self.matcher.is_secret(str(key)):
            return item if item is None or item == "" or isinstance(item, bool) else MASK
        return self.masked(item, depth - 1)


def _masked_text(text: str, matcher: _Matcher) -> str:
    # Codes stand between a name and its value in coloured logs, and inside a name that a search
    # found; where that hides a secret, the colours are given up.
    plain = strip_escapes(text)
    if matcher.may_hold(plain):
        masked = _masked_plain(plain, matcher)
        if masked != plain:
            return masked
    # What the codes themselves hold, such as a title or the address of a link.
    return _masked_plain(text, matcher) if plain != text and matcher.may_hold(text) else text


def _masked_plain(text: str, matcher: _Matcher) -> str:
    text = _PRIVATE_KEY.sub(rf"\1{MASK}\2", text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}@", text)
    text = _URL_TOKEN.sub(rf"\1{MASK}@", text)
    text = _SCHEME.sub(_mask_scheme, text)
    text = _KNOWN_TOKEN.sub(MASK, text)
    return _mask_pairs(text, matcher)


# Every repetition is either bounded or possessive, so that no text costs more than linear time.
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
    r".*?(-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# Also with what a logger or `cat -n` puts in front; its last line; the headers of old formats.
_KEY_BODY = re.compile(
    r"(?:.{0,80}[^A-Za-z0-9+/=])?[A-Za-z0-9+/=]{40,100}\s*"
    r"|\s*[A-Za-z0-9+/]{0,100}={0,2}\s*"
    r"|(?:Proc-Type|DEK-Info|Version|Comment): .{0,100}"
)
# A user may hold "@" (`admin@server` in some clouds), so may a password, and database URLs in the
# wild also "/"; a port is not a password.
_URL_PASSWORD = re.compile(
    r"""(://[^\s/:"'<>`]{0,256}+:)(?!\d{1,5}(?:[^\w@]|\Z))"""
    r"""(?:[^\s/"'<>`]{1,512}|[^\s@"'<>`]{1,512}+)@"""
)
_URL_TOKEN = re.compile(r"""(://)[^\s/:@"'<>`*]{16,512}+@""")
_SCHEME = re.compile(
    r"\b(Bearer|Basic|Digest|Negotiate|Token)([ \t]{1,8})([A-Za-z0-9+/=._~-]{6,8192})",
    re.IGNORECASE,
)
_LOOKS_RANDOM = re.compile(r"[0-9=+/_]|[a-z][A-Z]|[A-Z]{2}[a-z]")
_KNOWN_TOKEN = re.compile(
    r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,255}|xox[abeprs]-[A-Za-z0-9-]{10,255}"
    r"|[rs]k_live_[A-Za-z0-9]{16,255}"
    r"|eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,4096})"
)


def _mask_scheme(match: re.Match[str]) -> str:
    scheme, space, value = match.groups()
    # "Basic authentication failed" is prose.
    if not _LOOKS_RANDOM.search(value.rstrip(".")):
        return match.group()
    return f"{scheme}{space}{MASK}"


# A name and what ties it to its value: `name=`, `"name": `, `\"name\": `, `["name"] = `,
# `--name value`, `'--name', 'value'`.
_NAME = re.compile(
    r"""(?<![A-Za-z0-9_.-])(?:"""
    r"""([A-Za-z_][A-Za-z0-9_.-]*+)(\\?+["'])?+\]?+[ \t]{0,4}(?:=>|:=|[=:])[ \t]{0,4}"""
    r"""|--([A-Za-z][A-Za-z0-9_.-]*+)["']?+,?+(?:[ \t]{1,4}|=)(?!-)"""
    r""")"""
)
# What opens a value, the value, what closes it.
_QUOTED = (
    re.compile(r"""(\\["'])((?:(?!\\["'])[^\n])*+)(\\["']|)"""),
    re.compile(r"""([bBrRuUfF]{0,2}(?:\"\"\"|\'\'\'))(.*?)(\"\"\"|\'\'\'|\Z)""", re.DOTALL),
    re.compile(r"""([bBrRuUfF]{0,2}")((?:[^"\\\n]|\\.)*+)("|)"""),
    re.compile(r"""([bBrRuUfF]{0,2}')((?:[^'\\\n]|\\.)*+)('|)"""),
    re.compile(r"""(\[)([^\]\n]*+)(\]|)"""),
    re.compile(r"""(\{)([^}\n]*+)(\}|)"""),
)
_BARE = re.compile(r"""()((?:(?:Bearer|Basic|Token)[ \t]{1,8})?+[^\s&"'<>]++)()""", re.IGNORECASE)
# After a quoted name the text is JSON or a repr, and its shape is worth keeping.
_BARE_IN_JSON = re.compile(r"""()([^\s,;&"'<>)}\]]++)()""")
_REST_OF_LINE = re.compile(r"()([^\r\n]++)()")
_REST_OF_DOUBLE = re.compile(r'()([^\r\n"]++)()')
_REST_OF_SINGLE = re.compile(r"()([^\r\n']++)()")
_HEADERS = frozenset({"authorization", "proxy_authorization", "cookie", "set_cookie"})
_NOTHING = frozenset({"none", "null", "true", "false", MASK})


def _mask_pairs(text: str, matcher: _Matcher) -> str:
    parts: list[str] = []
    done = place = 0
    while (name := _NAME.search(text, place)) is not None:
        place = name.end()
        if not matcher.is_secret(name.group(1) or name.group(3)):
            continue
        value = _value_after(text, name)
        if value is None:
            continue
        place = value.end()
        if value.group(2).strip() and value.group(2).lower() not in _NOTHING:
            parts += text[done : value.start()], value.group(1), MASK, value.group(3)
            done = place
    parts.append(text[done:])
    return "".join(parts)


def _value_after(text: str, name: re.Match[str]) -> re.Match[str] | None:
    start = name.end()
    for pattern in _QUOTED:
        if value := pattern.match(text, start):
            return value
    if name.group(2):
        return _BARE_IN_JSON.match(text, start)
    if _plain(name.group(1) or "") in _HEADERS:
        # `-H "Cookie: a=b"`: a header may stand in quotes as a whole.
        quote = text[name.start() - 1] if name.start() else ""
        rest = {'"': _REST_OF_DOUBLE, "'": _REST_OF_SINGLE}.get(quote, _REST_OF_LINE)
        return rest.match(text, start)
    return _BARE.match(text, start)
