"""Text that programs write for a terminal, as the lines that a terminal would be left with.

Colours stay in the text. What moves the cursor to write over something is carried out here, so
that a progress bar becomes its last state instead of a thousand rows. The model is that of a bar,
not of a screen: whoever goes back to the start of a line replaces that line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .encoding import split_chunks

SNAPSHOT_SECONDS = 1.0
"""How long a line waits for its end before it is shown as it is."""
SNAPSHOT_SECONDS_MAX = 10.0
"""A line that is written over for minutes is shown less often, down to this."""
REGION_LINES = 64
"""How far up a program may go to write over its lines."""
LOOKAHEAD = 4096
"""Characters of an overlong line that are kept back: a secret must not escape masking by lying
across the end of a chunk."""
_AGE_SHARE = 20
_PARTIAL = 64
_BACK_MAX = 1024

# CSI, OSC and the other string sequences (ended by BEL or ST), then two-character escapes.
ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]{0,4}[0-~]"
    r"|\x9b[0-?]{0,64}[ -/]{0,8}[@-~]"
)
_TOKENS = re.compile(ESCAPES.pattern + "|.", re.DOTALL)
_HALF_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8})?\Z")
_MOVES = re.compile(r"[\r\b]|\x1b\[(?:\d{0,4}[ABEFG]|[0-2]?K)")
_UP_DOWN = re.compile(r"(\n)|\x1b\[(\d{0,4})([ABEF])")
_TO_START = re.compile(r"\x1b\[[01]?G")
_ERASED = re.compile(r"\x1b\[[0-2]?K")
_ERASED_BEFORE = re.compile(r".*\x1b\[[12]K", re.DOTALL)
_ERASED_AFTER_TEXT = re.compile(r"(?<!\r)\x1b\[0?K")
_ERASED_AFTER = re.compile(r"\x1b\[0?K")


def strip_escapes(text: str) -> str:
    """`text` without colours, titles, links and cursor movements."""
    return ESCAPES.sub("", text) if "\x1b" in text or "\x9b" in text else text


def last_state(line: str) -> str:
    """What is left to see of one line that was written over.

    What is shorter than what it replaces replaces it all the same: the rest is nobody's text.
    """
    state = line
    if "\r" in line:
        for state in reversed(line.rstrip("\r").split("\r")):
            if _shows(state):
                break
    if "\x1b[" in state:
        state = _ERASED_AFTER.sub("", _ERASED_BEFORE.sub("", state))
    state = state.rstrip("\b")
    return _backspaced(state) if "\b" in state else state


def _shows(text: str) -> bool:
    # Nothing but colours or a hidden cursor changes nothing on the screen.
    return bool(_ERASED.search(text) or strip_escapes(text))


def _backspaced(text: str) -> str:
    kept: list[str] = []
    places: list[int] = []
    for piece in _TOKENS.findall(text):
        if piece == "\b":
            if places:
                kept[places.pop()] = ""
            continue
        if len(piece) == 1:
            places.append(len(kept))
        kept.append(piece)
    return "".join(kept)


class _Row:
    """One line that may still change. `shown` is the state that was handed out last."""

    __slots__ = ("raw", "rewritten", "shown", "unknown")

    def __init__(self, *, unknown: bool = False) -> None:
        self.raw = ""
        self.rewritten = False
        self.shown: str | None = None
        self.unknown = unknown

    def write(self, text: str) -> None:
        """Add text, keeping no more of it than can still be seen."""
        self.raw += text
        if self.rewritten or _MOVES.search(self.raw):
            self.rewritten = True
            self.raw = _reduced(_TO_START.sub("\r", self.raw))

    def to_start(self) -> None:
        """The next text replaces what is here."""
        self.rewritten = True
        if self.raw and not self.raw.endswith("\r"):
            self.raw += "\r"

    def take(self, *, final: bool) -> list[str]:
        """The state, if it has not been handed out; `final`: the line has ended."""
        if not self.rewritten:
            text, self.raw = self.raw, ""
            if not text and (not final or self.shown is not None or self.unknown):
                return []
            self.shown = text
            return [text]
        state = last_state(self.raw).rstrip(" ")
        # A bar that was wiped away leaves no row, unless a line was really ended there.
        if state == (self.shown or "") and (self.shown is not None or self.unknown or not final):
            return []
        before, self.shown = self.shown, state
        return [state] if state or (final and before is None and not self.unknown) else []


def _reduced(raw: str) -> str:
    """What of a line can still be seen, or still has an effect on what comes."""
    raw = _ERASED_AFTER_TEXT.sub("", raw)
    head, start, tail = raw.rpartition("\r")
    if start and not _shows(tail):
        return last_state(head) + "\r" + tail[-_BACK_MAX:]
    body = tail.rstrip("\b")
    return last_state(body) + tail[len(body) :][:_BACK_MAX]


class TerminalText:
    """One stream's text: finds lines, carries out what writes over them, bounds what waits.

    `mask` hides secrets in the parts of an overlong line; whole lines are handed out unmasked.
    Times are microseconds; None: unknown, and then nothing is shown before its end.
    """

    def __init__(self, chunk_bytes: int, mask: Callable[[str], str]) -> None:
        self._chunk_bytes = chunk_bytes
        self._mask = mask
        self._above: list[_Row] = []
        self._row = _Row()
        self._below: list[_Row] = []
        self._height = 0
        self._ends_since_up = 0
        self._partial = ""
        self._began: int | None = None
        self._snapshot: int | None = None

    def feed(self, text: str, at: int | None) -> list[str]:
        """The lines that are complete, parts of one that is too long, and states that are due."""
        text, self._partial = self._partial + text, ""
        if "\x1b" in text[-_PARTIAL:] and (half := _HALF_ESCAPE.search(text, len(text) - _PARTIAL)):
            text, self._partial = text[: half.start()], half.group()
        if "\r\n" in text:
            text = text.replace("\r\n", "\n")
        row = self._row
        if self._height or row.rewritten or _moves(text):
            lines = self._carry_out(text)
        elif row.shown is not None:
            lines = self._end(text)
        else:
            *lines, row.raw = (row.raw + text).split("\n")
        lines += self._overlong()
        return lines + self._due(at, ended=bool(lines))

    def idle(self, at: int) -> list[str]:
        """What has waited long enough to be shown as it is."""
        if self._began is None or self._snapshot is None:
            return []
        if at - self._snapshot < self._pause(at):
            return []
        return self._show(at)

    def close(self) -> list[str]:
        """What is left when no more will come."""
        partial, self._partial = self._partial, ""
        self._row.write(partial)
        rows = [*self._above, self._row, *self._below]
        lines = [line for row in self._above for line in row.take(final=True)]
        lines += [line for row in rows[len(self._above) :] for line in row.take(final=False)]
        self._forget()
        return lines

    def _end(self, text: str) -> list[str]:
        """Text after a part of its line was handed out: an end at once makes no empty line."""
        first, end, rest = text.partition("\n")
        self._row.raw += first
        if not end:
            return []
        lines = self._row.take(final=True)
        self._row = _Row()
        *more, self._row.raw = rest.split("\n")
        return lines + more

    def _carry_out(self, text: str) -> list[str]:
        lines, place = list[str](), 0
        for move in _UP_DOWN.finditer(text):
            self._row.write(text[place : move.start()])
            place = move.end()
            if move.group(1):
                lines += self._next_line()
                continue
            count = min(int(move.group(2) or 1) or 1, REGION_LINES)
            for _ in range(count):
                (self._up if move.group(3) in "AF" else self._down)()
        self._row.write(text[place:])
        return lines

    def _next_line(self) -> list[str]:
        if self._below:
            self._down()
            return []
        if not self._height:
            lines = self._row.take(final=True)
            self._row, self._began = _Row(), None
            return lines
        self._above.append(self._row)
        self._row = _Row()
        self._ends_since_up += 1
        # Long past the bars: what comes now is text like any other.
        if self._ends_since_up > 2 * self._height + 8:
            self._height = 0
        lines = []
        while len(self._above) > self._height:
            lines += self._above.pop(0).take(final=True)
        return lines

    def _up(self) -> None:
        if len(self._below) >= REGION_LINES:
            return
        self._below.insert(0, self._row)
        self._row = self._above.pop() if self._above else _Row(unknown=True)
        self._row.to_start()
        self._height = max(self._height, len(self._below))
        self._ends_since_up = 0

    def _down(self) -> None:
        if self._below:
            self._above.append(self._row)
            self._row = self._below.pop(0)
            self._row.to_start()

    def _overlong(self) -> list[str]:
        row = self._row
        if len(row.raw) <= self._chunk_bytes + LOOKAHEAD:
            return []
        # Cut at a space where there is one: half a token would not be known as one.
        cut = row.raw.rfind(" ", len(row.raw) - LOOKAHEAD) + 1 or len(row.raw)
        pieces = split_chunks(self._mask(row.raw[:cut]) + row.raw[cut:], self._chunk_bytes)
        kept = pieces.pop()
        while pieces and len(kept) < LOOKAHEAD:
            kept = pieces.pop() + kept
        row.raw, row.rewritten = kept, False
        return pieces

    def _due(self, at: int | None, *, ended: bool) -> list[str]:
        row = self._row
        if not (row.raw or self._above or self._below):
            self._began = None
        elif self._began is None or (ended and not row.rewritten and not self._height):
            self._began = self._snapshot = at
        elif at is not None and (row.rewritten or self._height):
            return self.idle(at)
        return []

    def _pause(self, at: int) -> int:
        age = 0 if self._began is None else at - self._began
        longest = int(SNAPSHOT_SECONDS_MAX * 1_000_000)
        return max(int(SNAPSHOT_SECONDS * 1_000_000), min(longest, age // _AGE_SHARE))

    def _show(self, at: int) -> list[str]:
        rows = [*self._above, self._row, *self._below]
        lines = [line for row in rows for line in row.take(final=False)]
        self._snapshot = at
        if not (self._row.raw or self._height):
            self._began = None
        return lines

    def _forget(self) -> None:
        self._above, self._row, self._below = [], _Row(), []
        self._height, self._began = 0, None


def _moves(text: str) -> bool:
    if "\x1b[" in text:
        return _MOVES.search(text) is not None
    return "\r" in text or "\b" in text
