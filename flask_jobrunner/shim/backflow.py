"""What the parent drains of a child that does not read its own output, and gives back.

A C function that prints while it holds the interpreter's lock fills the pipe that only another
thread of the same process would empty: without this the job would hang for ever. What was
drained goes down the control pipe, framed, and the child empties that before it reads output
again, so the order is kept. All memory is bounded; nothing here ever blocks.
"""

from __future__ import annotations

import os
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STUCK_AFTER = 0.5  # seconds
DROP_AFTER = 5.0  # seconds in which the child took nothing of a backlog that is full
BACKLOG_BYTES = 1024 * 1024  # per stream
TAIL_BYTES = 64 * 1024  # per stream, of what is left at the end
_FRAME_BYTES = 16 * 1024
_READ_BYTES = 64 * 1024
_LAST_DRAIN_BYTES = 16 * 1024 * 1024
_DRAINING = b'{"v":1,"type":"draining"}\n'
_RESUME = b'{"v":1,"type":"resume"}\n'


class Tail:
    """The last bytes of a stream, and how many came before them."""

    def __init__(self, limit: int = TAIL_BYTES) -> None:
        self.limit = limit
        self.kept = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Append; memory stays below twice the limit plus `data`."""
        self.kept += data
        if len(self.kept) > 2 * self.limit:
            self._cut(len(self.kept) - self.limit)

    def close(self) -> None:
        """Cut to the limit, at the start of a line where one is near."""
        if len(self.kept) > self.limit:
            self._cut(len(self.kept) - self.limit)
        if self.dropped:
            self._cut(self.kept.find(b"\n", 0, 4096) + 1)

    def _cut(self, count: int) -> None:
        del self.kept[:count]
        self.dropped += count


class _Stream:
    """One output pipe of the child."""

    def __init__(self, name: str, fd: int, size: int) -> None:
        self.name = name
        self.fd = fd
        self.half = size // 2
        self.last_seen = 0
        self.stuck_since: float | None = None
        self.backlog = 0
        self.untold = 0
        self.at_line_start = True
        self.finished = False

    def is_stuck(self, waiting: int, now: float) -> bool:
        """Half full for `STUCK_AFTER` seconds, and in all that time nobody took anything."""
        if waiting < self.half:
            self.stuck_since = None
            return False
        if self.stuck_since is None or waiting < self.last_seen:
            self.stuck_since = now
        self.last_seen = waiting
        return now - self.stuck_since >= STUCK_AFTER


class Backflow:
    """The control pipe and the two output pipes, as the parent sees them.

    `unread` says how many bytes wait in a pipe, `capacity` how many fit.
    """

    def __init__(
        self,
        *,
        control: tuple[int, int],
        out: int,
        err: int,
        unread: Callable[[int], int],
        capacity: Callable[[int], int],
    ) -> None:
        self.control_r, self.control_w = control
        self.streams = {
            "stdout": _Stream("stdout", out, capacity(out)),
            "stderr": _Stream("stderr", err, capacity(err)),
        }
        self.draining = False
        self._held_until = 0.0
        self._taken = 0
        self._quiet_since = 0.0
        self._awake = False
        self._may_drop = False
        self._unread = unread
        self._queue: deque[tuple[_Stream, bytearray]] = deque()
        self._writing = bytearray()
        self._written = 0
        # (where its bytes begin in all that was ever written, stream, bytes), until it was read
        self._sent: deque[tuple[int, _Stream, bytes]] = deque()

    @property
    def wants_to_write(self) -> bool:
        """Whether the control pipe should be watched for room."""
        return bool(self._writing or self._queue)

    @property
    def is_suspicious(self) -> bool:
        """Whether to look again soon."""
        return self.draining or any(
            stream.stuck_since is not None for stream in self.streams.values()
        )

    def readable(self) -> list[int]:
        """The pipes to be watched for output: none, unless the child does not read them."""
        # Nor if it takes what it was given: then it will read the rest by itself. Until then the
        # pipe may well be full: whoever prints waits, and nothing is lost.
        if not self.draining or self._awake:
            return []
        streams = self.streams.values()
        return [stream.fd for stream in streams if not stream.finished and self._has_room(stream)]

    def _has_room(self, stream: _Stream) -> bool:
        full = stream.backlog + _READ_BYTES > BACKLOG_BYTES
        return not self.draining or self._may_drop or not full

    def hold(self, until: float) -> None:
        """The child lets its pipes be full on purpose: it waits for its database."""
        self._held_until = until

    def send(self, line: bytes) -> None:
        """Send a line of its own: the envelope, first of all."""
        self._writing += line
        self.flush()

    def look(self, now: float) -> None:
        """Start to drain what is stuck; stop once the child has read all that it was given."""
        if self.draining and not self.wants_to_write and not self._unread(self.control_r):
            self._stop_draining()
        self._look_at_child(now)
        for stream in self.streams.values():
            stuck = stream.is_stuck(self._unread(stream.fd), now)
            if stuck and not self.draining and now >= self._held_until:
                self.send(_DRAINING)
                self.draining, self._quiet_since = True, now
                # It may have woken up this very moment, and taken what it must not overtake.
                if self._unread(stream.fd) < stream.last_seen:
                    self._stop_draining()

    def _look_at_child(self, now: float) -> None:
        taken = self._written - self._unread(self.control_r)
        if taken > self._taken or now < self._held_until:
            self._taken, self._quiet_since = taken, now
            self._awake = True
        elif now - self._quiet_since >= STUCK_AFTER:
            self._awake = False
        self._may_drop = now - self._quiet_since >= DROP_AFTER

    def _stop_draining(self) -> None:
        self.draining = False
        for stream in self.streams.values():
            stream.stuck_since = None
        self.send(_RESUME)

    def drain(self) -> None:
        """Take what is there, at most one read a stream, and send what there is room for."""
        for stream in self.streams.values():
            data = self._read(stream) if self._has_room(stream) else b""
            if data:
                self._queue_up(stream, data)
        self.flush()

    def flush(self) -> None:
        """Write to the child until the pipe is full."""
        while self.wants_to_write:
            if not self._writing:
                self._begin_frame()
            try:
                count = os.write(self.control_w, self._writing)
            except BlockingIOError:
                break
            self._written += count
            del self._writing[:count]
        self._forget_what_was_read()

    def leftovers(self) -> dict[str, Tail]:
        """After the child's end: what it never read, oldest first. Never waits for EOF."""
        tails = {name: Tail() for name in self.streams}
        consumed = self._written - self._unread(self.control_r)
        for start, stream, data in self._sent:
            tails[stream.name].add(data[max(0, consumed - start) :])
        for stream, queued in self._queue:
            tails[stream.name].add(self._announced(stream, bytes(queued)))
        for stream in self.streams.values():
            self._drain_to(stream, tails[stream.name])
            tails[stream.name].close()
        return tails

    def _drain_to(self, stream: _Stream, tail: Tail) -> None:
        # A leftover process may go on writing for ever: hence the limit.
        taken = 0
        while taken < _LAST_DRAIN_BYTES and (data := self._read(stream)):
            taken += len(data)
            tail.add(data)

    def _read(self, stream: _Stream) -> bytes:
        if stream.finished:
            return b""
        try:
            data = os.read(stream.fd, _READ_BYTES)
        except BlockingIOError:
            return b""
        stream.finished = not data
        return data

    def _queue_up(self, stream: _Stream, data: bytes) -> None:
        stream.backlog += len(data)
        if self._queue and self._queue[-1][0] is stream and len(self._queue[-1][1]) < _FRAME_BYTES:
            self._queue[-1][1].extend(data)
        else:
            self._queue.append((stream, bytearray(data)))
        while stream.backlog > BACKLOG_BYTES:
            self._drop_oldest(stream)

    def _drop_oldest(self, stream: _Stream) -> None:
        place = next(at for at, (owner, _) in enumerate(self._queue) if owner is stream)
        queued = self._queue[place][1]
        # A line cut in half could be half a record: drop up to the end of a line.
        cut = queued.find(b"\n", min(_FRAME_BYTES, len(queued) - 1)) + 1 or len(queued)
        del queued[:cut]
        stream.backlog -= cut
        stream.untold += cut
        if not queued:
            del self._queue[place]

    def _begin_frame(self) -> None:
        stream, queued = self._queue[0]
        data = bytes(queued[:_FRAME_BYTES])
        del queued[:_FRAME_BYTES]
        if not queued:
            self._queue.popleft()
        stream.backlog -= len(data)
        data = self._announced(stream, data)
        stream.at_line_start = data.endswith(b"\n")
        header = f'{{"v":1,"type":"output","stream":"{stream.name}","size":{len(data)}}}\n'.encode()
        self._sent.append((self._written + len(header), stream, data))
        self._writing += header + data

    def _announced(self, stream: _Stream, data: bytes) -> bytes:
        if not stream.untold:
            return data
        line = f"[{stream.untold} bytes of output were dropped: it came faster than it was read]\n"
        stream.untold = 0
        return (b"" if stream.at_line_start else b"\n") + line.encode() + data

    def _forget_what_was_read(self) -> None:
        consumed = self._written - self._unread(self.control_r)
        while self._sent and self._sent[0][0] + len(self._sent[0][2]) <= consumed:
            self._sent.popleft()
