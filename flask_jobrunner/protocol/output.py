"""What comes out of a job: raw text of any program, with structured records in between.

Everything travels through the kernel's pipe, so that a killed process loses nothing it wrote:
`print`, C libraries and child programs as raw bytes; log calls as records, which keep their
level. A record is a frame of at most `FRAME_MAX_BYTES`, which the kernel writes in one piece:

    0x1E nonce "=" JSON "\\n"            a whole record
    0x1E nonce "+" id piece "\\n"        a piece of a longer one, more to come
    0x1E nonce "." id piece "\\n"        its last piece

The nonce is the child's own and random: no text that a job prints can pass for a record. The
child reads this stream, and whoever records the end reads what the child left unread.
"""

from __future__ import annotations

import codecs
import secrets
from collections.abc import Iterable, Iterator
from json import JSONDecoder, JSONEncoder
from typing import Any

from flask_jobrunner.model.records import NewLine

from .encoding import clean_text, split_chunks
from .redact import DEFAULT_REDACT_KEYS, LineMasker
from .terminal import TerminalText

FRAME_MAX_BYTES = 4096
"""PIPE_BUF of Linux: a write of this size is never torn apart by another."""
CHUNK_BYTES = 16384

_START = b"\x1e"
_ID_BYTES = 8
_LEVELS = frozenset({"debug", "info", "warning", "error"})
_STREAMS = frozenset({"", "stdout", "stderr"})
_OPEN_RECORDS = 64
_RECORD_LIMIT = 1 << 20

# Objects of our own: a job that replaces json.dumps does not change how its log is written.
_encode = JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = JSONDecoder().decode


def new_nonce() -> str:
    """16 random hex digits that mark the records of one process."""
    return secrets.token_hex(8)


def dump_record(nonce: str, line: NewLine) -> list[bytes]:
    """The frames of one line. Its message should be at most one chunk long: one line, one row."""
    record: dict[str, Any] = {"m": line.message, "l": line.level, "t": line.at}
    optional = {"s": line.stream, "k": line.step_key, "c": line.context_json}
    record |= {key: value for key, value in optional.items() if value}
    return _frames(nonce, record)


def dump_step(nonce: str, step_key: str | None) -> list[bytes]:
    """The frame that says: from here on, this stream's raw text belongs to this step."""
    return _frames(nonce, {"step": step_key})


def unify_newlines(text: str) -> str:
    """`text` with CRLF and CR as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _frames(nonce: str, record: dict[str, Any]) -> list[bytes]:
    mark = _START + nonce.encode("ascii")
    body = _encode(record).encode("ascii")
    room = FRAME_MAX_BYTES - len(mark) - 2
    if len(body) <= room:
        return [mark + b"=" + body + b"\n"]
    name = secrets.token_hex(_ID_BYTES // 2).encode("ascii")
    room -= _ID_BYTES
    pieces = [body[start : start + room] for start in range(0, len(body), room)]
    return [
        mark + (b"." if number == len(pieces) else b"+") + name + piece + b"\n"
        for number, piece in enumerate(pieces, 1)
    ]


class OutputParser:
    """Turns the bytes of both streams into lines, in the order in which they are fed.

    Lines are masked by `redact_keys`; None leaves them as they are.
    """

    def __init__(
        self,
        nonce: str | None,
        chunk_bytes: int = CHUNK_BYTES,
        *,
        step_key: str | None = None,
        redact_keys: Iterable[str] | None = DEFAULT_REDACT_KEYS,
    ) -> None:
        self._frames = _FrameReader(nonce)
        self._chunk_bytes = chunk_bytes
        self._latest = 0
        keys = None if redact_keys is None else tuple(redact_keys)
        self._streams = {
            name: _Stream(chunk_bytes, keys, step_key) for name in ("stdout", "stderr")
        }

    def feed(self, stream: str, data: bytes, at: int | None) -> list[NewLine]:
        """The lines that `data` completes.

        `at` (microseconds) is the time of raw text; what follows a record is never older than it.
        """
        lines: list[NewLine] = []
        for kind, part in self._frames.split(stream, data):
            if kind == "text":
                lines += self._raw(stream, self._streams[stream].feed(part, at), at)
            else:
                lines += self._record(stream, part, at)
        return lines

    def idle(self, at: int) -> list[NewLine]:
        """Lines that still lack their end and have waited long enough to be shown as they are."""
        lines: list[NewLine] = []
        for name, stream in self._streams.items():
            lines += self._raw(name, stream.text.idle(at), at)
        return lines

    def close(self, at: int | None = None) -> list[NewLine]:
        """What is left when no more will come."""
        lines: list[NewLine] = []
        for name, stream in self._streams.items():
            left = stream.feed(self._frames.rest(name), at, final=True) + stream.text.close()
            lines += self._raw(name, left, at)
        return lines

    def _raw(self, name: str, messages: list[str], at: int | None) -> list[NewLine]:
        if not messages:
            return []
        stream, limit = self._streams[name], self._chunk_bytes
        step = stream.step_key
        at = None if at is None else max(at, self._latest)
        messages = stream.masked(messages)
        # One test for all: nearly always every line is short.
        if max(map(len, messages)) * 4 > limit:
            messages = [piece for message in messages for piece in split_chunks(message, limit)]
        return [NewLine(message, "info", name, step, None, at) for message in messages]

    def _record(self, stream: str, body: bytes, at: int | None) -> list[NewLine]:
        try:
            record = _decode(body.decode("ascii"))
        except (ValueError, RecursionError):
            return []
        if "step" in record:
            self._streams[stream].step_key = record["step"]
            return []
        level, kept_as = str(record.get("l")), str(record.get("s", ""))
        message = clean_text(unify_newlines(str(record.get("m", ""))))
        when = record.get("t")
        if isinstance(when, int):
            self._latest = max(self._latest, when)
        line = NewLine(
            message,
            level if level in _LEVELS else "info",
            kept_as if kept_as in _STREAMS else "",
            record.get("k"),
            record.get("c"),
            when if isinstance(when, int) else at,
        )
        return [line]


class _FrameReader:
    """Tells frames from text, also where a read ended in the middle of either."""

    def __init__(self, nonce: str | None) -> None:
        self._mark = _START + nonce.encode("ascii") if nonce else b""
        self._held: dict[str, bytes] = {}
        self._open: dict[bytes, list[bytes]] = {}

    def split(self, stream: str, data: bytes) -> Iterator[tuple[str, bytes]]:
        """("text", bytes) and ("record", JSON bytes) in their order."""
        data = self.rest(stream) + data
        position = 0
        while (start := self._find(data, position)) >= 0:
            if start > position:
                yield "text", data[position:start]
            end = data.find(b"\n", start, start + FRAME_MAX_BYTES)
            if end < 0 and len(data) - start < FRAME_MAX_BYTES:
                self._held[stream] = data[start:]
                return
            whole = self._whole(data[start + len(self._mark) : end]) if end > 0 else None
            if whole is None:
                # The mark without a frame behind it: shown as it came.
                end = start + len(self._mark) - 1
                yield "text", data[start : end + 1]
            elif whole:
                yield "record", whole
            position = end + 1
        tail = self._half_a_mark(data, position)
        if tail < len(data):
            self._held[stream] = data[tail:]
        if tail > position:
            yield "text", data[position:tail]

    def rest(self, stream: str) -> bytes:
        """What was held back because it might have become a frame."""
        return self._held.pop(stream, b"")

    def _find(self, data: bytes, position: int) -> int:
        return data.find(self._mark, position) if self._mark else -1

    def _half_a_mark(self, data: bytes, position: int) -> int:
        """Where an unfinished mark begins at the end of `data`; its length where none does."""
        start = data.rfind(_START, max(position, len(data) - len(self._mark)))
        if self._mark and start >= 0 and self._mark.startswith(data[start:]):
            return start
        return len(data)

    def _whole(self, frame: bytes) -> bytes | None:
        """The record that this frame completes, b"" where more has to come, None: not a frame."""
        kind, name, piece = frame[:1], frame[1 : 1 + _ID_BYTES], frame[1 + _ID_BYTES :]
        if kind == b"=":
            return frame[1:]
        if kind not in (b"+", b"."):
            return None
        pieces = self._open.setdefault(name, [])
        pieces.append(piece)
        if kind == b"." or len(pieces) * FRAME_MAX_BYTES > _RECORD_LIMIT:
            return b"".join(self._open.pop(name))
        if len(self._open) > _OPEN_RECORDS:
            # Their writers died in the middle: the oldest will never be completed.
            del self._open[next(iter(self._open))]
        return b""


class _Stream:
    """One stream: its text, and what is said about each of its lines."""

    def __init__(
        self, chunk_bytes: int, keys: tuple[str, ...] | None, step_key: str | None
    ) -> None:
        self.step_key = step_key
        self._masker = LineMasker(keys) if keys is not None else None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.text = TerminalText(chunk_bytes, self._masker.part if self._masker else str)

    def feed(self, data: bytes, at: int | None, *, final: bool = False) -> list[str]:
        """The lines that `data` completes."""
        text = self._decode(data, final)
        if not text:
            return []
        return self.text.feed(clean_text(text) if "\0" in text else text, at)

    def masked(self, messages: list[str]) -> list[str]:
        """The messages without secrets."""
        return self._masker.lines(messages) if self._masker else messages
