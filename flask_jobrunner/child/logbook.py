"""What waits to be written: lines in order, and the newest progress. Bounded in memory."""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from flask_jobrunner.model.records import NewLine, Progress
from flask_jobrunner.model.words import size
from flask_jobrunner.protocol.encoding import spell_out

from .steady import Alarm, Clock

BUFFER_BYTES = 16 << 20
"""Memory that waiting lines may take, their objects included."""
BATCH_BYTES = 8 << 20
BATCH_ROWS = 20_000
PATIENCE = 10.0
"""Seconds for which output is held up while nothing at all gets written; then lines are dropped.
A handler may hold the very lock that the writer waits for: waiting for ever would never end."""
HOLD_SECONDS = 1.0
"""For so long the parent is told, again and again, that output waits on purpose."""
LINE_BYTES = 8
"""What a line counts towards the limit beside its text."""
_OBJECTS = 120


def _memory(lines: Sequence[NewLine]) -> int:
    """What the lines take in memory, roughly."""
    return sum([line.message.__sizeof__() + len(line.context_json or "") for line in lines]) + (
        _OBJECTS * len(lines)
    )


def _text(lines: Sequence[NewLine]) -> int:
    """What the lines count towards the limit."""
    text = "".join([line.message for line in lines])
    length = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    contexts = sum([len(line.context_json) for line in lines if line.context_json])
    return length + contexts + LINE_BYTES * len(lines)


def _spelled(line: NewLine) -> NewLine:
    if line.message.isascii() and (line.step_key or "").isascii():
        return line
    message = spell_out(line.message, 4 * len(line.message) + 12) or ""
    return line._replace(message=message, step_key=spell_out(line.step_key, 128))


class Logbook:
    """Filled by whoever reads output, emptied by the one writer.

    `limit` is JOBRUNNER_LOG_MAX_BYTES: past it one line says so, and later ones are not kept.
    `hold` is called while output is held up, with the seconds for which it may be.
    """

    def __init__(
        self,
        *,
        limit: int,
        clock: Clock,
        ring: Alarm,
        buffer_bytes: int = BUFFER_BYTES,
        hold: Callable[[float], object] = lambda _: None,
    ) -> None:
        self._lock = allocate_lock()
        self._accepting = allocate_lock()
        self._waiting: deque[tuple[list[NewLine], int]] = deque()
        self._count = 0
        self._bytes = 0
        self._batch: list[NewLine] = []
        self._limit = limit
        self._accepted = 0
        self._clock = clock
        self._buffer_bytes = buffer_bytes
        self._patience = PATIENCE
        self._hold = hold
        self._room = Alarm()
        self._ring = ring
        self._dropped_here = 0
        self.dropped = 0
        """Lines that came faster than the database took them."""
        self.left_out = 0
        """Lines beyond the limit."""
        self._ascii = False
        self._progress: Progress | None = None
        self._progress_waits = False

    # --- filling ------------------------------------------------------------------------------

    def add(self, lines: Sequence[NewLine], *, wait: bool = True) -> None:
        """Append output. Waits while the buffer is full; drops the oldest when that is no use.

        `wait=False` is for the writer, who alone makes room.
        """
        with self._accepting:
            self._accept(lines)
        if wait and self._bytes > self._buffer_bytes:
            self._wait_for_room()
            self._drop_oldest()

    def add_own(self, line: NewLine) -> None:
        """Append a line of the runner itself, which no limit keeps out."""
        self._append([line])

    def set_progress(self, progress: Progress) -> None:
        """Replace what the next beat writes as step and progress."""
        waited = self._progress_waits
        self._progress = progress
        self._progress_waits = True
        if not waited:
            self._ring.ring()

    def _accept(self, lines: Sequence[NewLine]) -> None:
        if self.left_out:
            self.left_out += len(lines)
            return
        count = _text(lines)
        if self._accepted + count <= self._limit:
            self._accepted += count
            self._append(list(lines))
        else:
            self._fill_up(lines)

    def _append(self, lines: list[NewLine]) -> None:
        if not lines:
            return
        memory = _memory(lines)
        with self._lock:
            first = not self._waiting
            self._waiting.append((lines, memory))
            self._count += len(lines)
            self._bytes += memory
        if first:
            self._ring.ring()

    def _fill_up(self, lines: Sequence[NewLine]) -> None:
        """Take what still fits, and say once that the log is full."""
        fitting = 0
        for line in lines:
            count = _text([line])
            if self._accepted + count > self._limit:
                break
            self._accepted += count
            fitting += 1
        self._append(list(lines[:fitting]))
        self.left_out = len(lines) - fitting
        text = f"The log is full ({size(self._limit)}, JOBRUNNER_LOG_MAX_BYTES): what comes "
        self.add_own(NewLine(text + "from here on is not kept.", "warning", at=lines[fitting].at))

    def _wait_for_room(self) -> None:
        # Output that is held up holds up the handler, which prints no faster than lines are
        # written then. What was waited is forgiven when the writer gets on.
        while self._bytes > self._buffer_bytes and self._patience > 0:
            before = self._clock.monotonic()
            self._ring.ring()
            self._hold(HOLD_SECONDS)
            self._room.wait(min(0.25, self._patience))
            self._patience -= self._clock.monotonic() - before

    def _drop_oldest(self) -> None:
        with self._lock:
            while self._bytes > self._buffer_bytes and self._waiting:
                lines, memory = self._waiting.popleft()
                dropped = 0
                while dropped < len(lines) and self._bytes > self._buffer_bytes:
                    one = _memory(lines[dropped : dropped + 1])
                    self._bytes, memory = self._bytes - one, memory - one
                    dropped += 1
                if dropped < len(lines):
                    self._waiting.appendleft((lines[dropped:], memory))
                self._count -= dropped
                self._dropped_here += dropped
                self.dropped += dropped

    # --- emptying -----------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._waiting or self._batch or self._dropped_here or self._progress_waits)

    @property
    def has_more(self) -> bool:
        """Whether more waits than one batch takes."""
        return self._bytes > BATCH_BYTES or self._count > BATCH_ROWS

    @property
    def has_room(self) -> bool:
        """Whether a read's worth of lines fits without waiting."""
        return self._bytes < self._buffer_bytes // 2

    @property
    def unsettled(self) -> bool:
        """Whether a batch was taken and it is not yet known that it was written."""
        return bool(self._batch)

    def batch(self) -> list[NewLine]:
        """The next lines to write. The same ones until `written`: a write may have to be repeated
        that did happen, and only the very same lines are recognised."""
        if self._batch:
            return self._batch
        with self._lock:
            if self._dropped_here:
                text = f"{self._dropped_here:,} lines were dropped here: they came faster than "
                line = NewLine(text + "the database took them.", "warning", at=self._clock.now())
                self._batch.append(line)
                self._dropped_here = 0
            self._take_waiting()
        if self._ascii:
            self._batch = [_spelled(line) for line in self._batch]
        return self._batch

    def _take_waiting(self) -> None:
        room = BATCH_BYTES
        while self._waiting and room > 0 and len(self._batch) < BATCH_ROWS:
            lines, memory = self._waiting.popleft()
            most = BATCH_ROWS - len(self._batch)
            if memory > room:
                # Long lines: as many as fit, and one in any case.
                each = memory // len(lines)
                most = min(most, max(1, room // max(1, each)))
            taken, left = lines[:most], lines[most:]
            used = _memory(taken) if left else memory
            self._batch += taken
            self._count -= len(taken)
            self._bytes -= used
            room -= used
            if left:
                self._waiting.appendleft((left, memory - used))

    def written(self) -> None:
        """The batch is in the database."""
        self._batch = []
        self._patience = PATIENCE
        self._room.ring()

    def replace_batch(self, line: NewLine) -> None:
        """Give up a batch that the database refuses: `line` says so in its place."""
        self._batch = [line]

    def spell_out(self) -> bool:
        """From here on everything in ASCII; False where that is so already."""
        self._ascii, before = True, self._ascii
        self._batch = [_spelled(line) for line in self._batch]
        return not before

    def take_progress(self) -> Progress | None:
        """The newest progress if it has not been written."""
        if not self._progress_waits:
            return None
        self._progress_waits = False
        return self.storable(self._progress)

    def storable(self, progress: Progress | None) -> Progress | None:
        """A progress in characters that the database has."""
        if progress is None or not self._ascii:
            return progress
        key, label = spell_out(progress.step_key, 128), spell_out(progress.step_label, 255)
        return replace(progress, step_key=key, step_label=label)

    def progress_not_written(self) -> None:
        """It has to be sent again."""
        self._progress_waits = self._progress is not None
