"""Colours of terminal output as classes; everything else that controls a terminal is left out.

All 256 and true colours become the nearest of sixteen, which the stylesheet keeps readable on
both grounds. A coloured background takes the text's colour for itself: whatever a program
combines, the text then stands out from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

from flask_jobrunner.protocol.terminal import ESCAPES

from .format import visible

SPANS = 200
"""Changes of style that one line may show; beyond them its text goes on in the last one."""
_PARAMETERS = 64

_PALETTE = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205),
    (229, 229, 229), (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255),
    (255, 0, 255), (0, 255, 255), (255, 255, 255),
)  # fmt: skip
_LEVELS = (0, 95, 135, 175, 215, 255)


@dataclass
class _Style:
    """What the codes so far ask for. Colours are 0 to 15."""

    fore: int | None = None
    back: int | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    inverse: bool = False

    def classes(self) -> str:
        """The classes for text in this style."""
        filled = self.inverse or self.back is not None
        colour = self.fore if self.inverse or self.back is None else self.back
        names = {
            f"c{colour}": colour is not None,
            "g": filled,
            "dim": self.dim and colour is None and not filled,
            "bold": self.bold,
            "it": self.italic,
            "ul": self.underline,
            "st": self.strike,
        }
        return " ".join(name for name, wanted in names.items() if wanted)

    def apply(self, parameters: str) -> None:
        """Take in the numbers of one `ESC [ … m`."""
        numbers = iter(_numbers(parameters))
        for number in numbers:
            self._apply(number, numbers)

    def _apply(self, number: int, more: Iterator[int]) -> None:
        if number == 0:
            self.__init__()  # type: ignore[misc]  # every field back to its default
        elif number in _SWITCHES:
            for name, on in _SWITCHES[number]:
                setattr(self, name, on)
        elif number in (38, 48, 58):
            colour = _extended(more)
            if number != 58 and colour is not None:
                setattr(self, "fore" if number == 38 else "back", colour)
        elif number in (39, 49):
            setattr(self, "fore" if number == 39 else "back", None)
        else:
            base = {3: ("fore", 0), 4: ("back", 0), 9: ("fore", 8), 10: ("back", 8)}
            name, bright = base.get(number // 10, ("", 0))
            if name and number % 10 <= 7:
                setattr(self, name, number % 10 + bright)


_SWITCHES: dict[int, tuple[tuple[str, bool], ...]] = {
    1: (("bold", True),),
    2: (("dim", True),),
    3: (("italic", True),),
    4: (("underline", True),),
    7: (("inverse", True),),
    9: (("strike", True),),
    21: (("underline", True),),
    22: (("bold", False), ("dim", False)),
    23: (("italic", False),),
    24: (("underline", False),),
    27: (("inverse", False),),
    29: (("strike", False),),
}


def coloured(text: str, limit: int | None = None) -> tuple[Markup, int]:
    """Terminal output as safe markup of at most `limit` characters, and how many were cut."""
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    if "\x1b" not in text and "\x9b" not in text:
        shown = visible(text)
        cut = 0 if limit is None else max(0, len(shown) - limit)
        return escape(shown[:limit] if cut else shown), cut
    parts, left, cut = list[Markup](), limit, 0
    for classes, piece in _pieces(text):
        shown = visible(piece)
        if left is not None:
            cut += max(0, len(shown) - left)
            shown = shown[:left]
            left -= len(shown)
        if shown and classes:
            parts.append(Markup('<span class="{}">{}</span>').format(classes, shown))
        elif shown:
            parts.append(escape(shown))
    return Markup("").join(parts), cut


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """(classes, text) in their order."""
    style, classes, place, waiting, spans = _Style(), "", 0, "", 0
    for code in ESCAPES.finditer(text):
        waiting += text[place : code.start()]
        place = code.end()
        parameters = _style_of(code.group())
        if parameters is None or spans >= SPANS:
            continue
        style.apply(parameters)
        if (now := style.classes()) != classes:
            yield classes, waiting
            classes, waiting, spans = now, "", spans + 1
    yield classes, waiting + text[place:]


def _style_of(code: str) -> str | None:
    start = 2 if code.startswith("\x1b[") else 1 if code.startswith("\x9b") else 0
    parameters = code[start:-1]
    if not start or code[-1] != "m" or parameters.strip("0123456789;:"):
        return None
    return parameters


def _numbers(parameters: str) -> list[int]:
    # `4:3` is a way to underline, `38:5:1` a colour: after a colon stand parts of one attribute.
    numbers = []
    for part in parameters.split(";")[:_PARAMETERS]:
        first, *rest = part.split(":")
        numbers.append(_number(first))
        if first in {"38", "48", "58"} and rest:
            # `38:2::r:g:b` names a colour space, which nobody does.
            numbers += [_number(one) for one in rest if one]
    return numbers


def _number(digits: str) -> int:
    return int(digits) if 0 < len(digits) <= 3 else 0


def _extended(more: Iterator[int]) -> int | None:
    kind = next(more, 0)
    if kind == 5:
        return _of_256(next(more, 0))
    if kind == 2:
        return _nearest(next(more, 0), next(more, 0), next(more, 0))
    return None


def _of_256(number: int) -> int | None:
    if number < 16:
        return number
    if number > 255:
        return None
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return _nearest(grey, grey, grey)
    red, rest = divmod(number - 16, 36)
    return _nearest(_LEVELS[red], _LEVELS[rest // 6], _LEVELS[rest % 6])


@lru_cache(maxsize=4096)
def _nearest(red: int, green: int, blue: int) -> int:
    def distance(index: int) -> int:
        r, g, b = _PALETTE[index]
        return 3 * (r - red) ** 2 + 4 * (g - green) ** 2 + 2 * (b - blue) ** 2

    return min(range(16), key=distance)
