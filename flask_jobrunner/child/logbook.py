"""What waits to be written: lines in order, and the newest progress. Bounded in memory."""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from flask_jobrunner.model.records import NewLine, Progress
from flask_jobrunner.model.words import size
from flask_jobrunner.protocol.encoding import spell_out

from .steady import Alarm, Clock

BUFFER_BYTES = 8 << 20
BATCH_BYTES = 2 << 20
BATCH_ROWS = 20_000
PATIENCE = 2.0
"""Seconds that output may be held up, all in all, before lines are dropped instead."""
_ROW_BYTES = 32


def _spelled(line: NewLine) -> NewLine:
    if line.message.isascii() and (line.step_key or "").isascii():
        return line
    message = spell_out(line.message, 4 * len(line.message) + 12) or ""
    return replace(line, message=message, step_key=spell_out(line.step_key, 128))


def _size(line: NewLine) -> int:
    message = line.message
    length = len(message) if message.isascii() else len(message.encode("utf-8", "replace"))
    return length + len(line.context_json or "") + _ROW_BYTES


class Logbook:
    """Filled by whoever reads output, emptied by the one writer.

    `limit` is JOBRUNNER_LOG_MAX_BYTES: past it one line says so, and later ones are counted only.
    """

    def __init__(
        self, *, limit: int, clock: Clock, buffer_bytes: int = BUFFER_BYTES, ring: Alarm
    ) -> None:
        self._lock = allocate_lock()
        self._lines: deque[tuple[NewLine, int]] = deque()
        self._bytes = 0
        self._batch: list[NewLine] = []
        self._limit = limit
        self._accepted = 0
        self._clock = clock
        self._buffer_bytes = buffer_bytes
        self._patience = PATIENCE
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

    def add(self, lines: Iterable[NewLine]) -> None:
        """Append output. Waits a little while the buffer is full, then drops the oldest."""
        sized = [(line, _size(line)) for line in lines]
        total = sum(count for _, count in sized)
        if self._accepted + total <= self._limit and not self.left_out:
            self._accepted += total
            self._append(sized, total)
        else:
            self._add_to_the_limit(sized)
        if self._bytes > self._buffer_bytes:
            self._wait_for_room()
            self._drop_oldest()

    def add_own(self, line: NewLine) -> None:
        """Append a line of the runner itself, which no limit keeps out."""
        count = _size(line)
        self._append([(line, count)], count)

    def set_progress(self, progress: Progress) -> None:
        """Replace what the next beat writes as step and progress."""
        waited = self._progress_waits
        self._progress = progress
        self._progress_waits = True
        if not waited:
            self._ring.ring()

    def _append(self, sized: list[tuple[NewLine, int]], total: int) -> None:
        with self._lock:
            first = not self._lines
            self._lines.extend(sized)
            self._bytes += total
        if first:
            self._ring.ring()

    def _add_to_the_limit(self, sized: list[tuple[NewLine, int]]) -> None:
        for line, count in sized:
            if not self.left_out and self._accepted + count <= self._limit:
                self._accepted += count
                self._append([(line, count)], count)
                continue
            if not self.left_out:
                text = (
                    f"The log is full ({size(self._limit)}, JOBRUNNER_LOG_MAX_BYTES): what comes "
                )
                self.add_own(NewLine(text + "from here on is not kept.", "warning", at=line.at))
            self.left_out += 1

    def _wait_for_room(self) -> None:
        # Output that is held up holds up the handler, so all waiting together is bounded; what
        # was waited is forgiven when the writer gets on.
        while self._bytes > self._buffer_bytes and self._patience > 0:
            before = self._clock.monotonic()
            self._ring.ring()
            self._room.wait(min(0.1, self._patience))
            self._patience -= self._clock.monotonic() - before

    def _drop_oldest(self) -> None:
        with self._lock:
            while self._bytes > self._buffer_bytes and self._lines:
                _, count = self._lines.popleft()
                self._bytes -= count
                self._dropped_here += 1
                self.dropped += 1

    # --- emptying -----------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._lines or self._batch or self._dropped_here or self._progress_waits)

    @property
    def has_more(self) -> bool:
        """Whether more waits than one batch takes."""
        return self._bytes > BATCH_BYTES or len(self._lines) > BATCH_ROWS

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
            taken = 0
            while self._lines and taken < BATCH_BYTES and len(self._batch) < BATCH_ROWS:
                line, count = self._lines.popleft()
                self._batch.append(line)
                taken += count
            self._bytes -= taken
        if self._ascii:
            self._batch = [_spelled(line) for line in self._batch]
        return self._batch

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

    def summary(self) -> None:
        """Say how much was left out, if anything was."""
        if self.left_out:
            text = f"{self.left_out:,} lines beyond JOBRUNNER_LOG_MAX_BYTES were not kept."
            self.add_own(NewLine(text, "warning", at=self._clock.now()))
