"""Reading this process's own output, and writing records into it.

Both ends of the output pipe are held here; the parent holds the reading end too. What is not on
its way to the database yet stays in the pipe, where it survives this process: the writer itself
collects it right before it writes, and only when much has gathered it is read ahead of that.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
from _thread import allocate_lock
from collections.abc import Callable, Iterable
from contextlib import suppress
from json import JSONDecoder, JSONEncoder

from flask_jobrunner.model.records import NewLine
from flask_jobrunner.protocol.encoding import clean_text
from flask_jobrunner.protocol.output import OutputParser, dump_record, dump_step, new_nonce

from .clean import Standing
from .descriptors import PrivateFd, private_copy
from .logbook import Logbook
from .steady import Alarm, Clock, Worker

READ_BYTES = 64 << 10
GATHERED_BYTES = 32 << 10
"""With so much in a pipe it is read although the writer has not come for it."""
GATHER_SECONDS = 0.1
"""How long output stays in its pipe, where it outlives this process, before it is read."""
_TICK = 0.02
_DRAIN_SECONDS = 3.0
_DRAIN_LIMIT = 60.0
"""However steadily something comes, from then on it is left to the parent."""
_HEADER_LIMIT = 256

_decode = JSONDecoder().decode
_encode = JSONEncoder().encode


class PipeSink:
    """Writes records as frames into the output pipe, in order with everything printed."""

    def __init__(self, pipe: PrivateFd, errors: PrivateFd, logbook: Logbook, nonce: str) -> None:
        self._pipe = pipe
        self._errors = errors
        self._logbook = logbook
        self._nonce = nonce
        self.step_key: str | None = None

    def record(self, line: NewLine) -> None:
        """Take one line."""
        if not self._pipe.is_ours():
            self._pipe.restore(1, os.O_WRONLY)
        # A handler may have closed the pipe for good: then the line goes the short way.
        if not all(self._pipe.write(frame) for frame in dump_record(self._nonce, line)):
            self._logbook.add([line])

    def set_step(self, step_key: str | None) -> None:
        """From here on, output belongs to this step."""
        self.step_key = step_key
        for frame in dump_step(self._nonce, step_key):
            self._pipe.write(frame)
            self._errors.write(frame)


class Capture:
    """The reading side. Its thread looks after the pipes and calls the writer to them."""

    def __init__(
        self,
        standing: Standing,
        control_rest: bytes,
        *,
        chunk_bytes: int,
        redact_keys: Iterable[str] | None,
        clock: Clock,
    ) -> None:
        self.nonce = new_nonce()
        self._clock = clock
        self._parser = OutputParser(self.nonce, chunk_bytes, redact_keys=redact_keys)
        self._control = ControlReader(standing.control, control_rest)
        self._pipes = _open_pipes(standing)
        self._writers = private_copy(1), private_copy(2)
        self._poll = select.poll
        self._reading = allocate_lock()
        self._held: dict[str, bytes | None] = {}
        self._seen_at: int | None = None
        self._taken = self._drained = 0
        self._held_up = 0.0
        self._by_writer = False
        self._pause = Alarm()
        self._stopped = False
        self._logbook: Logbook | None = None
        self._call_writer: Callable[[], None] = self._pause.ring
        self._thread = Worker(self._loop)

    def sink(self, logbook: Logbook) -> PipeSink:
        """Where records are written, to be read here."""
        return PipeSink(*self._writers, logbook, self.nonce)

    def is_captured(self, number: int) -> bool:
        """Whether a descriptor is one of the captured pipes."""
        return any(pipe.is_same_file(number) for pipe in self._pipes.values())

    def logger_context(self, name: str) -> str:
        """The name of a logger as a line's context."""
        return _encode({"logger": clean_text(name[:200])})

    def start(self, logbook: Logbook, call_writer: Callable[[], None]) -> None:
        """Begin to read into `logbook`; `call_writer` asks for a `collect` soon."""
        self._logbook, self._call_writer = logbook, call_writer
        self._thread.start()

    def collect(self) -> None:
        """Read what waits, as the writer is about to write. Never waits itself."""
        if self._stopped or not self._has_waited or self._logbook is None:
            return
        if self._logbook.has_room and self._reading.acquire(blocking=False):
            try:
                self._by_writer = True
                self._read_once()
            finally:
                self._by_writer = False
                self._reading.release()

    def volume(self) -> tuple[int, bool]:
        """How many bytes were printed so far, and whether some of them still wait to be read."""
        waiting = sum(map(_unread, (*self._pipes.values(), self._control.fd)))
        return self._taken + self._drained + waiting, waiting > 0

    def revive(self) -> bool:
        """Start the thread again should it have died; True when it had."""
        if self._thread.alive or self._stopped:
            return False
        self._thread.start()
        return True

    def drain(self) -> None:
        """Read until both pipes are empty and stop: other processes may hold them open.

        What is in the pipes by now is read however long the database takes, and what the parent
        gives back for as long as it comes; what others still write, only for a while.
        """
        self._stopped = True
        self._restore_pipes()
        certain = self._taken + sum(map(_unread, self._pipes.values()))
        give_up = self._own_time() + _DRAIN_SECONDS
        limit, given = self._own_time() + _DRAIN_LIMIT, self._control.received
        while self._read_all():
            if self._control.received > given:
                given, give_up = self._control.received, self._own_time() + _DRAIN_SECONDS
            late = self._own_time() >= min(give_up, limit)
            if late and (self._taken >= certain or self._control.is_behind):
                break
            if self._control.is_behind:
                self._pause.wait(_TICK)
        with self._reading:
            self._feed_held()
            self._hand_over(self._parser.close(self._clock.now()))

    def _own_time(self) -> float:
        """The clock, standing still while the logbook has no room."""
        return self._clock.monotonic() - self._held_up

    def _loop(self) -> None:
        while not self._stopped:
            self._restore_pipes()
            gathered = self._gathered()
            if not gathered:
                self._wait_for_output()
            elif self._seen_at is None:
                self._seen_at = self._clock.now()
            if gathered >= GATHERED_BYTES:
                self._read_all()
            elif self._has_waited:
                self._call_writer()
            if gathered < GATHERED_BYTES:
                self._pause.wait(_TICK)

    @property
    def _has_waited(self) -> bool:
        # The last words before a crash must not be on their way through this process yet.
        seen = self._seen_at
        return seen is not None and self._clock.now() - seen >= GATHER_SECONDS * 1_000_000

    def _restore_pipes(self) -> None:
        for pipe, number in zip(self._pipes.values(), (1, 2), strict=True):
            if not pipe.is_ours():
                pipe.restore(number, os.O_RDONLY | os.O_NONBLOCK)

    def _gathered(self) -> int:
        if self._control.is_behind:
            return GATHERED_BYTES if _unread(self._control.fd) else 0
        if self._held:
            return GATHERED_BYTES  # read before it was its turn, and now it is
        waiting = [_unread(pipe) for pipe in self._pipes.values()]
        # What the parent had to drain means that the pipes ran full: no time to lose.
        return max(*waiting, GATHERED_BYTES if _unread(self._control.fd) else 0)

    def _wait_for_output(self) -> None:
        poll = self._poll()
        watched = [] if self._control.is_behind else [*self._pipes.values()]
        watched += [] if self._control.ended else [self._control.fd]
        for pipe in watched:
            if pipe.is_ours():
                poll.register(pipe.number, select.POLLIN)
        events = [number for number, _ in poll.poll(500)]
        self._seen_at = self._clock.now() if events else None
        with self._reading:
            if self._control.fd.number in events:
                # Also to learn that it has ended: a hung-up pipe would wake us for ever.
                self._feed_drained()
            self._hand_over(self._parser.idle(self._clock.now()))

    def _read_all(self) -> bool:
        with self._reading:
            return self._read_once()

    def _read_once(self) -> bool:
        """One read of everything; what the parent drained is older than what is in the pipes."""
        self._feed_drained()
        if not self._held and not self._control.is_behind:
            self._held = {name: pipe.read(READ_BYTES) for name, pipe in self._pipes.items()}
            self._taken += sum(len(data) for data in self._held.values() if data)
        # The parent may have begun to drain while this thread was stuck in these two reads.
        drained = self._feed_drained()
        if self._control.is_behind:
            return True
        return self._feed_held() or drained

    def _feed_held(self) -> bool:
        held, self._held = self._held, {}
        at, self._seen_at = self._seen_at or self._clock.now(), None
        for name, data in held.items():
            if data:
                self._hand_over(self._parser.feed(name, data, at))
        return any(held.values())

    def _feed_drained(self) -> bool:
        frames = self._control.read()
        self._drained += sum(len(data) for _, data in frames)
        for stream, data in frames:
            self._hand_over(self._parser.feed(stream, data, self._clock.now()))
        return bool(frames)

    def _hand_over(self, lines: list[NewLine]) -> None:
        if lines and self._logbook is not None:
            before = self._clock.monotonic()
            self._logbook.add(lines, wait=not self._by_writer)
            self._held_up += self._clock.monotonic() - before


class ControlReader:
    """Frames of drained output that the parent sends: a header line and that many bytes.

    They come between the lines `draining` and `resume`; in between only the parent reads.
    """

    def __init__(self, fd: PrivateFd, rest: bytes) -> None:
        self.fd = fd
        self.ended = False
        self.received = 0
        """Bytes that came."""
        self._draining = False
        self._buffer = rest
        with suppress(OSError):
            os.set_blocking(fd.number, False)

    @property
    def is_behind(self) -> bool:
        """Whether output that is older than what the pipes hold has yet to come."""
        return not self.ended and (self._draining or bool(self._buffer))

    def read(self) -> list[tuple[str, bytes]]:
        """The frames that are complete, as (stream, bytes)."""
        while not self.ended:
            data = self.fd.read(READ_BYTES)
            if data is None:
                break
            self.ended = not data
            self.received += len(data)
            self._buffer += data
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> tuple[str, bytes] | None:
        while (end := self._buffer.find(b"\n")) >= 0:
            stream, size = self._header(self._buffer[:end])
            if len(self._buffer) < end + 1 + size:
                return None
            data = self._buffer[end + 1 : end + 1 + size]
            self._buffer = self._buffer[end + 1 + size :]
            if stream:
                return stream, data
        return None

    def _header(self, line: bytes) -> tuple[str, int]:
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            header = _decode(line[:_HEADER_LIMIT].decode("ascii"))
            if header["type"] == "output" and header["stream"] in ("stdout", "stderr"):
                return header["stream"], max(0, int(header["size"]))
            if header["type"] in ("draining", "resume"):
                self._draining = header["type"] == "draining"
                return "", 0
        # Not what a parent sends: nothing after it can be trusted to be framed.
        self.ended, self._buffer = True, b""
        return "", 0


def _open_pipes(standing: Standing) -> dict[str, PrivateFd]:
    """The reading ends. Where a wrapper closed the parent's, pipes of our own take their place."""
    given = {"stdout": (standing.output, 1), "stderr": (standing.errors, 2)}
    pipes = {}
    for name, (passed, number) in given.items():
        is_it = passed is not None and passed.is_same_file(number)
        pipes[name] = passed if passed is not None and is_it else _own_pipe(name, number)
        os.set_blocking(pipes[name].number, False)
    return pipes


def _own_pipe(name: str, number: int) -> PrivateFd:
    getattr(sys, name).flush()
    reader, writer = os.pipe()
    with suppress(OSError, AttributeError):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 18)
    os.dup2(writer, number)
    os.close(writer)
    moved = private_copy(reader)
    os.close(reader)
    return moved


def _unread(pipe: PrivateFd) -> int:
    if not pipe.is_ours():
        return 0
    count = bytearray(4)
    try:
        fcntl.ioctl(pipe.number, termios.FIONREAD, count)
    except OSError:
        return 0
    return int.from_bytes(count, sys.byteorder)
