"""Whether the files that an application was built from are still what they were."""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import Any

from flask_jobrunner.protocol.identity import read_stat

Mark = tuple[int, int, int, int, int]
_NO_SOURCES = ("/proc/", "/dev/", "/sys/")
# Taken early, as an application may replace it.
_stat = os.stat


class Sources:
    """The modules' files, and whatever else is read until `close`: settings, keys, lists.

    What could not be found counts as well, for it may be there later; what this process writes
    itself does not. `changed` names one that is not what it was, or None.
    """

    def __init__(self) -> None:
        self._since = _birth()
        self._listening = True
        self._read: set[str] = set()
        self._written: set[str] = set()
        self._marks: dict[str, Mark | None] = {}
        sys.addaudithook(self._hear)

    def close(self) -> str | None:
        """Listen no more. The answer is a file that changed while it may have been read."""
        self._listening = False
        modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        found = self._read | {path for path in modules if isinstance(path, str)}
        for path in found - self._written:
            self._marks[path] = mark = _mark(path)
            # The time of the last change of any kind, which nobody can set back.
            if mark is not None and mark[-1] >= self._since:
                return path
        return None

    def changed(self) -> str | None:
        """A file that changed since `close`."""
        return next((path for path, mark in self._marks.items() if _mark(path) != mark), None)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._listening or event != "open":
            return
        # What leaves this would keep the application from opening the file.
        try:
            path, _, flags = arguments
            name = os.path.abspath(os.fsdecode(path))
            if flags & os.O_ACCMODE != os.O_RDONLY:
                self._written.add(name)
            elif not name.startswith(_NO_SOURCES) and not name.endswith(".pyc"):
                self._read.add(name)
        except (TypeError, ValueError, OSError):
            return


def _mark(path: str) -> Mark | None:
    """What changes with a file; None where there is no such file."""
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _birth() -> int:
    """When this process began, in nanoseconds of the wall clock; now, where nobody can tell."""
    now, seen = time.time_ns(), read_stat(os.getpid())
    if seen is None or not hasattr(time, "CLOCK_BOOTTIME"):
        return now
    began = seen[1] * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return now - (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - began)
