"""Time, waiting and threads that stay real whatever a handler patches.

A handler may freeze the clock, let gevent replace `threading`, or set its own `time.sleep`. The
lease must go on all the same, so these hold the real functions, taken before the application was
imported. They are kept in objects: freezegun also replaces the names inside other modules.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable


class Clock:
    """The monotonic clock, and the database's wall clock as it was at one moment plus that."""

    def __init__(self, wall_us: int | None = None) -> None:
        self.monotonic = time.monotonic
        self._base = (wall_us if wall_us is not None else time.time_ns() // 1000) - self._us()

    def now(self) -> int:
        """Microseconds UTC; moves on evenly even while the wall clock is set."""
        return self._base + self._us()

    def _us(self) -> int:
        return round(self.monotonic() * 1_000_000)


class Alarm:
    """Waiting that another thread may cut short."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def ring(self) -> None:
        """End the wait, or the next one if nobody waits now."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # it rings already

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`; True when it rang."""
        return self._lock.acquire(timeout=max(0.0, seconds))


class Owner:
    """The process that owns the job: a fork of it never writes."""

    def __init__(self) -> None:
        self._getpid = os.getpid
        self.pid = os.getpid()

    def is_here(self) -> bool:
        """Whether this is the owning process, and no fork of it."""
        return self._getpid() == self.pid


class Worker:
    """A loop in a thread of its own that can be seen to be dead and started again."""

    def __init__(self, loop: Callable[[], None]) -> None:
        self._loop = loop
        self._start = start_new_thread
        self._mark = 0.0
        self.alive = False
        self.ident: int | None = None

    def start(self) -> None:
        """Start the loop."""
        self.alive = True
        self._start(self._run, ())

    def _run(self) -> None:
        # A thread that `threading` did not make is invisible to coverage unless it asks.
        sys.settrace(threading.gettrace())
        self.ident = get_ident()
        try:
            self._loop()
        finally:
            self.alive = False


def within(seconds: float, action: Callable[[], object]) -> bool:
    """Run `action` in a thread and wait for it; False when it was not done in time.

    Also where no thread can be had any more: a handler may have used them up.
    """
    done = Alarm()

    def run() -> None:
        try:
            action()
        finally:
            done.ring()

    try:
        Worker(run).start()
    except RuntimeError:
        return False
    return done.wait(seconds)
