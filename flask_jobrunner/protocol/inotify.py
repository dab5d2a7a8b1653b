"""What happens to files, told by the kernel: inotify(7), by way of libc.

Only the few calls and flags that are needed here; the numbers are those of `sys/inotify.h`.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODIFY = 0x00000002
MOVED_FROM = 0x00000040
MOVED_TO = 0x00000080
CREATE = 0x00000100
DELETE = 0x00000200
OVERFLOW = 0x00004000
_HEAD = struct.Struct("iIII")
_BUFFER = 65536


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; `name` is that of a file in a watched folder."""

    watch: int
    mask: int
    name: str


class Inotify:
    """A descriptor that can be polled. Raises `OSError` where the kernel has none to give."""

    def __init__(self) -> None:
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self.fd: int = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError as error:  # no such function in this libc
            raise OSError("This system has no inotify.") from error

    def add(self, path: Path, mask: int) -> int:
        """Watch a file or a folder; the number that its events carry. Raises `OSError`."""
        number = self._libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask))
        return self._checked(number)

    def read(self) -> Iterator[Event]:
        """What has happened since the last time."""
        while True:
            try:
                data = os.read(self.fd, _BUFFER)
            except BlockingIOError:
                return
            yield from _events(data)
            if len(data) < _BUFFER // 2:
                return

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

    def _checked(self, number: int) -> int:
        if number < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return int(number)


def _events(data: bytes) -> Iterator[Event]:
    place = 0
    while place + _HEAD.size <= len(data):
        watch, mask, _cookie, length = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        name = data[place : place + length].rstrip(b"\0")
        yield Event(watch, mask, os.fsdecode(name))
        place += length
