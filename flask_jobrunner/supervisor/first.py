"""What the first process of a container has to do, done by a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

_FROM_TERMINAL = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_PASSED_ON = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, *_FROM_TERMINAL)


def leave_process_one() -> None:
    """Where this is process 1, go on in a child of it, and let process 1 look after the rest.

    Process 1 inherits every orphan and must wait for those that end; of signals it gets only those
    that it handles, which a supervisor does not while it builds the application; and a job could
    not tell it from the init that adopts children of the dead. So it does nothing else.
    """
    if os.getpid() != 1:
        return
    # Ignored, it would have the kernel forget how children ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Blocked before the fork, so that none is lost between it and the first wait.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_PASSED_ON, signal.SIGCHLD))
    child = os.fork()
    if child:
        os._exit(_look_after(child))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _look_after(child: int) -> int:
    """Pass signals on and wait for whatever ends, until the child has; its exit code."""
    while True:
        number = signal.sigwait((*_PASSED_ON, signal.SIGCHLD))
        if number == signal.SIGCHLD:
            code = _reap(child)
            if code is not None:
                return code
        # A terminal has sent these to the child already, and twice means something else.
        elif number not in _FROM_TERMINAL or not sys.stdin.isatty():
            os.kill(child, number)


def _reap(child: int) -> int | None:
    """Wait for all that has ended; the exit code of the child if it was among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if found[0] == child:
                code = os.waitstatus_to_exitcode(found[1])
    # As a shell tells that a signal ended it.
    return 128 - code if code is not None and code < 0 else code
