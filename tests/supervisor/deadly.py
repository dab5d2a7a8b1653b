"""A module that kills its process while it is imported."""

from __future__ import annotations

import os
import signal

os.kill(os.getpid(), signal.SIGSEGV)


def handle(_: object) -> None:
    """Never reached."""
