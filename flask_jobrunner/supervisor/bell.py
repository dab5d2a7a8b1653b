"""What wakes the loop from its poll: signals, and desks that are done."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

STOPS = (signal.SIGTERM, signal.SIGINT)


class Bell:
    """A pipe to this very process. `ring` may be called from any thread and any handler."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal may come while this very thread rings
        self._closed = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def ring(self) -> None:
        """Wake the loop."""
        # Full: it will wake anyway. Closed: the number may be somebody else's by now.
        with self._lock, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._write, b".")

    def interest(self) -> dict[int, int]:
        """What to poll for."""
        return {self._read: select.POLLIN}

    def step(self, ready: Mapping[int, int]) -> None:
        """Be quiet again."""
        if self._read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, 65536)

    def close(self) -> None:
        """Close the pipe."""
        with self._lock:
            self._closed = True
            for fd in (self._read, self._write):
                os.close(fd)


class Signals:
    """The signals that came, in order; what they mean is for the loop."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._came: list[int] = []
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Take them from now on. A HUP that this process was started to ignore stays ignored."""
        # Both are inherited: blocked signals would stop nobody, ignored children tell no exit code.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (*STOPS, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN or number in STOPS:
                self._before[number] = signal.signal(number, self._note)

    def restore(self) -> None:
        """Leave them as they were."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def take(self) -> list[int]:
        """Those that came since the last time."""
        came, self._came = self._came, []
        return came

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)
        self._bell.ring()
