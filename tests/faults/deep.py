"""Handlers that call themselves too often; imported only by the processes of their jobs."""

from __future__ import annotations

import ctypes
import resource
import sys

from flask_jobrunner import JobContext

LITTLE = 256 << 10
CALL = ctypes.CFUNCTYPE(None)


def in_python(ctx: JobContext) -> int:
    """Python's own limit ends it."""
    return in_python(ctx) + 1


def in_c(_ctx: JobContext) -> None:
    """Each call goes through C and back; the stack is over before any limit of Python's is."""
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (LITTLE, hard))
    sys.setrecursionlimit(1_000_000)

    def down() -> None:
        CALL(down)()

    down()
