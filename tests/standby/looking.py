"""A handler that tells what it finds in its process, and leaves traces there."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from flask_jobrunner import JobContext, process_role
from tests.host_app import Entry, db

ROLE = process_role()
print(f"imported as {ROLE}")
if ROLE == "standby":
    print("imported, and far more than a pipe holds\n" * 20_000)
TRACES: list[Any] = []


def handle(ctx: JobContext) -> dict[str, Any]:
    """What there is, before anything is left behind."""
    found = {
        "imported": ROLE,
        "role": process_role(),
        "traces": len(TRACES),
        "environ": sorted(os.environ),
        "folder": str(Path.cwd()),
        "leads": os.getsid(0) == os.getpgid(0) == os.getpid(),
        "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "input": sys.stdin.read(),
        "files": _files(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "checked_out": db.engine.pool.checkedout(),  # type: ignore[attr-defined] # a QueuePool
        "session": len(db.session.identity_map) + len(db.session.new),
        "parent_death_signal": _parent_death_signal(),
        "random": random.random(),
    }
    random.seed(1)
    os.environ["LEFT_BEHIND"] = "yes"
    os.chdir("/")
    db.session.add(Entry(name="left behind"))
    db.session.flush()
    TRACES.append(Path(__file__).open(encoding="utf-8"))  # noqa: SIM115 - to be left open
    return found


def _files() -> list[str]:
    """What is open beside the database; pipes have no names."""
    found = []
    for number in Path("/proc/self/fd").iterdir():
        try:
            name = str(number.readlink())
        except OSError:  # the listing's own
            continue
        if ".sqlite" not in name and ".db" not in name and not name.startswith("/proc/"):
            found.append(name.partition(":[")[0])
    return sorted(found)


def _parent_death_signal() -> int:
    number = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)
    return number.value
