"""Wall clocks that a test sets meanwhile: of servers by libfaketime, of Python by a patch.

libfaketime is nothing for Python: its sleeps by the monotonic clock fail under it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.helpers import requirements
from tests.servers import process

INSTALL = "install libfaketime (Debian: apt-get install libfaketime)"


@dataclass(frozen=True)
class Clock:
    """The wall clock of every process that was started with `of_servers` or `of_pythons`."""

    file: Path
    library: Path

    @property
    def of_pythons(self) -> dict[str, str]:
        """What Python needs in its environment."""
        here = Path(__file__).with_name("wrong_clock")
        path = os.pathsep.join(filter(None, (str(here), os.environ.get("PYTHONPATH"))))
        return {"WRONG_CLOCK": str(self.file), "PYTHONPATH": path}

    @property
    def of_servers(self) -> dict[str, str]:
        """What a server needs in its environment; durations stay true."""
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
