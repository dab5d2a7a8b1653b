"""A job whose process cannot leave: an exit hook holds the interpreter for ever."""

from __future__ import annotations

import atexit
import ctypes


def handle(_: object) -> None:
    """Succeed, and stay."""
    atexit.register(lambda: ctypes.PyDLL(None).sleep(600))
