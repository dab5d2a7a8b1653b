"""One process that stands by: watched from its start until it is handed a job or discarded."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from flask_jobrunner.protocol.identity import read_stat
from flask_jobrunner.protocol.messages import parse_message
from flask_jobrunner.shim import backflow, channels, evidence, watch

WORDS_BYTES = 4096
_READ_BYTES = 1 << 16
_WITHOUT_PIDFD = 0.2


class Standby:
    """It is `warm` once it waits for an envelope. What it prints until then is of no job."""

    def __init__(
        self, pid: int, ends: channels.Pipes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pid = pid
        self.ends = ends
        self.began = clock()
        self.match: str | None = None
        """What it was built from; None until it is warm."""
        self.is_deaf = False
        """Whether the way by which it answers is closed."""
        self._lines = watch.Lines()
        self._pidfd = watch.pidfd(pid)
        self._words = backflow.Tail(WORDS_BYTES)
        self._outputs = {ends.out, ends.err}

    @property
    def is_warm(self) -> bool:
        """Whether it waits for an envelope."""
        return self.match is not None

    @property
    def patience(self) -> float:
        """After how many seconds `step` must be called even if nothing happens."""
        return 60.0 if self._pidfd is not None else _WITHOUT_PIDFD

    def interest(self) -> dict[int, int]:
        """What to poll for."""
        own = [] if self.is_deaf else [self.ends.ack_r]
        own += [] if self._pidfd is None else [self._pidfd]
        return dict.fromkeys((*own, *self._outputs), select.POLLIN)

    def step(self, ready: Mapping[int, int]) -> None:
        """Hear what it says, and take what it prints out of its way."""
        for fd in self._outputs & set(ready):
            self._read(fd)
        if not self.is_deaf and self.ends.ack_r in ready:
            self._hear()

    def has_ended(self) -> bool:
        """Whether it has ended; it is not waited for yet, so its number is still its own."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except (ChildProcessError, AttributeError):
            stat = read_stat(self.pid)
            return stat is None or stat[0] in "ZX"

    def can_answer(self) -> bool:
        """Whether it runs, as far as can be told without asking it."""
        stat = read_stat(self.pid)
        return not self.is_deaf and (stat is None or stat[0] not in "TtZX")

    def release(self) -> float:
        """Give its pipes to another watcher, empty; the CPU seconds that it has used by now."""
        for fd in list(self._outputs):
            self._read(fd)
        self._close_pidfd()
        return evidence.cpu_so_far(self.pid)

    def hang_up(self) -> None:
        """Let its input end: it ends by itself."""
        self.ends.hang_up()

    def bury(self) -> str:
        """End it and what it started, wait for it, and tell its last words. May take seconds."""
        with suppress(ProcessLookupError, PermissionError):
            # Our own child, not waited for: the number can belong to nobody else.
            os.killpg(self.pid, signal.SIGKILL)
        try:
            evidence.end_group(self.pid)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            for fd in list(self._outputs):
                self._read(fd)
        finally:
            self._close_pidfd()
            self.ends.close()
        self._words.close()
        return self._words.kept.decode("utf-8", "replace").strip()

    def _close_pidfd(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _read(self, fd: int) -> None:
        """All that waits, within reason: it may print faster than we read."""
        for _ in range(64):
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._outputs.discard(fd)
                return
            self._words.add(data)

    def _hear(self) -> None:
        try:
            data = os.read(self.ends.ack_r, _READ_BYTES)
        except BlockingIOError:
            return
        self.is_deaf = not data
        for line in self._lines.feed(data):
            message = parse_message(line)
            if message is not None and message["type"] == "warm":
                self.match = message["match"]
