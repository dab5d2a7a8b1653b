"""Wall clocks that a test sets while a process runs, by libfaketime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.helpers import requirements
from tests.servers import process

INSTALL = "install libfaketime (Debian: apt-get install libfaketime)"


@dataclass(frozen=True)
class Clock:
    """The wall clock of every process that was started with its `environ`."""

    file: Path
    library: Path

    @property
    def environ(self) -> dict[str, str]:
        """What a process needs in its environment; durations stay true."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def set(self, seconds: int) -> None:
        """Have it be wrong by so many seconds from now on."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.chmod(0o644)
        new.replace(self.file)  # it is read all the time


def make_clock() -> Clock:
    """A clock that is right so far."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        requirements.missing("libfaketime", INSTALL)
    clock = Clock(process.private_directory("ft") / "clock", found[0])
    clock.set(0)
    return clock
