"""Making this process clean: what a server, a shell or a service manager left on it.

Runs before the application is imported, so that its modules already see a normal process.
"""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flask_jobrunner.shim.channels import FAULT_NAME
from flask_jobrunner.shim.evidence import STACK_SIGNAL

from .descriptors import (
    PIPES_VARIABLE,
    PrivateFd,
    open_missing_standard_ones,
    private_copy,
    replace_standard_input,
    take_over,
)

# Python itself ignores these two, and needs to: a broken pipe is an exception then.
_PYTHON_IGNORES = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_OOM_STEP = 500


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the parent gave this process, out of the application's reach."""

    control: PrivateFd
    """The envelope, then output that the parent had to drain."""
    ack: PrivateFd | None
    output: PrivateFd | None
    """The reading end of the pipe that is this process's standard output."""
    errors: PrivateFd | None
    stacks: PrivateFd | None = None
    """Where faulthandler writes."""


def make_clean() -> Standing:
    """Set this process right and take the parent's descriptors."""
    open_missing_standard_ones()
    _reset_signals()
    leave_a_deleted_directory()
    _allow_files()
    _be_the_first_to_go()
    ack, output, errors, fault = take_over(os.environ.pop(PIPES_VARIABLE, None))
    control = private_copy(0)
    if not os.isatty(control.number):
        replace_standard_input()
    stacks = _catch_crashes(fault)
    _set_streams()
    return Standing(control=control, ack=ack, output=output, errors=errors, stacks=stacks)


def _reset_signals() -> None:
    # An ignored or blocked signal is inherited through every exec.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        action = signal.SIG_IGN if number in _PYTHON_IGNORES else signal.SIG_DFL
        with suppress(OSError, ValueError):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else action)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def leave_a_deleted_directory() -> None:
    """Be somewhere that exists."""
    # A deploy may have removed the release that the server still runs in.
    try:
        Path.cwd()
    except OSError:
        os.chdir("/")


def _allow_files() -> None:
    # Only a mask that keeps the owner out of its own files is an accident; 077 is a policy.
    mask = os.umask(0o022)
    if not mask & 0o700:
        os.umask(mask)


def _be_the_first_to_go() -> None:
    # When memory runs out, the job should go before the server that shares its limits.
    with suppress(OSError, ValueError):
        path = Path("/proc/self/oom_score_adj")
        path.write_text(str(min(1000, int(path.read_text()) + _OOM_STEP)))


def _catch_crashes(fault: PrivateFd | None) -> PrivateFd | None:
    """Stacks go into a file of their own: of a crash, and on request while it runs."""
    file = fault or _own_file()
    if file is not None:
        faulthandler.enable(file.number, all_threads=True)
        if STACK_SIGNAL is not None:
            faulthandler.register(STACK_SIGNAL, file.number, all_threads=True, chain=False)
    return file


def _own_file() -> PrivateFd | None:
    # A wrapper such as sudo closes what the parent passed on.
    with suppress(OSError, AttributeError):
        opened = os.memfd_create(FAULT_NAME)
        moved = private_copy(opened)
        os.close(opened)
        return moved
    return None


def _set_streams() -> None:
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        elif stream is None:
            raw = os.fdopen(number, "wb", closefd=False)
            made = io.TextIOWrapper(
                raw, encoding="utf-8", errors="backslashreplace", line_buffering=True
            )
            setattr(sys, name, made)
            setattr(sys, f"__{name}__", made)
