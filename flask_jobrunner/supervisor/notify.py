"""Telling a service manager how things are: sd_notify(3), a datagram to $NOTIFY_SOCKET."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping


class Notifier:
    """Does nothing where no service manager listens."""

    def __init__(
        self, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._status = ""
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environ.get("WATCHDOG_USEC", "")
        self._every = int(usec) / 2_000_000 if mine and usec.isdecimal() else None
        self._alive_at = 0.0

    def tell(self, *lines: str) -> None:
        """Send lines such as `READY=1`."""
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.connect(self._address)
            out.send("\n".join(lines).encode())

    @property
    def left(self) -> float:
        """Seconds until a sign of life is due."""
        return 60.0 if self._every is None else max(0.0, self._alive_at - self._clock())

    def step(self, status: str) -> None:
        """Say that the loop turns, and what `systemctl status` shows if that has changed.

        The database plays no part: where it is away, a restart would help nobody.
        """
        if status != self._status:
            self._status = status
            self.tell(f"STATUS={status}")
        if self._every is not None and self._clock() >= self._alive_at:
            self._alive_at = self._clock() + self._every
            self.tell("WATCHDOG=1")
