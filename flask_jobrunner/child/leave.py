"""Leaving for good: what a handler left behind gets a few seconds, and never keeps the process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from .steady import within

THREADS_SECONDS = 3.0
HOOKS_SECONDS = 3.0
FLUSH_SECONDS = 2.0


def last_word(text: object) -> None:
    """Say something on the error output, which the parent keeps; never raises."""
    with suppress(Exception):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def flush_output() -> None:
    """Push out what Python and the C library still hold back."""
    within(FLUSH_SECONDS, _flush)


def _flush() -> None:
    for stream in {sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__}:
        # Whatever a handler put there.
        with suppress(Exception):
            if stream is not None:
                stream.flush()
    with suppress(Exception):
        import ctypes

        ctypes.CDLL(None).fflush(None)


def leave(code: int) -> NoReturn:
    """End this process with `code`: threads and exit hooks first, each only for so long.

    The outcome is in the database by now, so nothing here can change it.
    """
    # As the interpreter does at its end: executors are told to stop, other threads waited for.
    # There is no public way to either.
    end_threads = getattr(threading, "_shutdown", None)
    if end_threads is not None:
        within(THREADS_SECONDS, end_threads)
    # os._exit would skip the hooks, and with them temporary files and buffered log handlers.
    within(HOOKS_SECONDS, atexit._run_exitfuncs)  # noqa: SLF001 - see above
    flush_output()
    os._exit(code)
