"""File descriptors of ours in a process where the handler may close any number and reuse it."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress

PIPES_VARIABLE = "JOBRUNNER_PIPES"
# High numbers: `closerange(3, 1024)` is a common habit of code that makes daemons.
_FLOORS = (1024, 512, 64, 3)


class PrivateFd:
    """A descriptor that knows which file it is, and is used only while it still is that file."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _which(number)
        self._read, self._write = os.read, os.write

    def is_ours(self) -> bool:
        """Whether the number still stands for the same file."""
        return self._file is not None and _which(self.number) == self._file

    def is_same_file(self, number: int) -> bool:
        """Whether another descriptor is the same pipe or file."""
        return self._file is not None and _which(number) == self._file

    def read(self, size: int) -> bytes | None:
        """What is there; b"" at the end; None when nothing waits or the file is gone."""
        if not self.is_ours():
            return b""
        try:
            return self._read(self.number, size)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def write(self, data: bytes) -> bool:
        """Write all of it; False when nobody reads or the file is gone."""
        if not self.is_ours():
            return False
        try:
            while data:
                data = data[self._write(self.number, data) :]
        except OSError:
            return False
        return True

    def restore(self, through: int, flags: int) -> bool:
        """Open a pipe again that was closed here, through its other end at `through`."""
        if not self.is_same_file(through):
            return False
        with suppress(OSError):
            opened = os.open(f"/proc/self/fd/{through}", flags | os.O_CLOEXEC)
            self.number = private_copy(opened).number
            os.close(opened)
        return self.is_ours()


def _which(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def private_copy(number: int) -> PrivateFd:
    """A copy out of the way of `number`, closed in programs that the job starts."""
    for floor in _FLOORS:
        try:
            return PrivateFd(fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, floor))
        except OSError:
            continue
    return PrivateFd(os.dup(number))


def take_over(numbers: str | None) -> list[PrivateFd | None]:
    """The descriptors that the parent passed on, moved; None for each that is not open.

    `numbers` is the value of JOBRUNNER_PIPES: ack, output, error output, fault.
    """
    parts = (numbers or "").split(",")
    if len(parts) != 4 or not all(part.isdecimal() for part in parts):
        return [None] * 4
    taken: list[PrivateFd | None] = []
    for number in map(int, parts):
        # A wrapper may have closed them, and the number may be something else's by now.
        if number < 3 or not _is_pipe_or_nameless(number):
            taken.append(None)
            continue
        taken.append(private_copy(number))
        os.close(number)
    return taken


def _is_pipe_or_nameless(number: int) -> bool:
    try:
        status = os.fstat(number)
    except OSError:
        return False
    return stat.S_ISFIFO(status.st_mode) or (stat.S_ISREG(status.st_mode) and not status.st_nlink)


def open_missing_standard_ones() -> None:
    """Open /dev/null as 0, 1 and 2 where they are closed: nothing else may become them."""
    for number in (0, 1, 2):
        if _which(number) is None:
            opened = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)


def replace_standard_input() -> None:
    """Let 0 be /dev/null: a handler that reads its input sees an end, and no frames of ours."""
    opened = os.open(os.devnull, os.O_RDONLY)
    os.dup2(opened, 0)
    os.close(opened)
