"""Leaving for good: what a handler left behind gets a few seconds, and never keeps the process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from time import monotonic
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
    within(THREADS_SECONDS, _tell_threads)
    _wait_for_threads()
    # os._exit would skip the hooks, and with them temporary files and buffered log handlers.
    within(HOOKS_SECONDS, atexit._run_exitfuncs)  # noqa: SLF001 - see above
    flush_output()
    os._exit(code)


def _tell_threads() -> None:
    # What threading runs before it waits: it tells the idle threads of executors to end.
    for callback in reversed(getattr(threading, "_threading_atexits", ())):
        callback()


def _wait_for_threads() -> None:
    # Not threading._shutdown: away from the main thread it waits for that one, too.
    give_up = monotonic() + THREADS_SECONDS
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join(max(0.0, give_up - monotonic()))
