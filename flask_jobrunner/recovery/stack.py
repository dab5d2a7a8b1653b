"""Asking a running job where it is, from another process on its host.

By a signal that faulthandler answers without the interpreter, so also while a C call holds it;
what it writes is read through the kernel's view of the process.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.model.statuses import OWNED
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.stacks import stack_lines
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.shim.channels import FAULT_NAME
from flask_jobrunner.shim.evidence import STACK_SIGNAL, catches, without_marks

from .stop import verified

PATIENCE = 5.0
"""Seconds in which a process that is not stopped has answered."""
SETTLED = 0.1
_BYTES = 64 << 10


@dataclass(frozen=True, kw_only=True)
class Stack:
    """The lines, or why there are none."""

    lines: list[str] = field(default_factory=list)
    why: str = ""


def stack_of(runtime: Runtime, seen: OwnedJob, actor: str) -> Stack:
    """Where the threads of the job's process are now. That `actor` asked is kept as an event."""
    worker, pid = seen.worker, seen.worker.pid
    if seen.job.status not in OWNED or pid is None:
        return Stack(why="The job does not run, so there is no stack.")
    if seen.is_inline:
        return Stack(why=f"The job runs inside process {pid}, which is there for more than it.")
    if identity.look(worker, runtime.config.instance) == "unseen":
        where = worker.host or "another host"
        return Stack(
            why=f"The job's process, pid {pid} on {where}, cannot be seen from here: run this "
            "command there, in its container if it has one."
        )
    with verified(worker) as process:
        if process is None:
            return Stack(why=f"The job's process {pid} is gone.")
        if STACK_SIGNAL is None or not catches(pid, STACK_SIGNAL):
            return Stack(why=f"Process {pid} cannot be asked: it is starting or ending.")
        try:
            return _ask(runtime, seen, actor, process, pid)
        except PermissionError:
            return Stack(why=f"Process {pid} belongs to another user: run this command as that.")


def _ask(runtime: Runtime, seen: OwnedJob, actor: str, process: int, pid: int) -> Stack:
    file = _fault_file(pid)
    if file is None or STACK_SIGNAL is None:
        return Stack(why=f"Process {pid} has no file for its stacks any more.")
    try:
        runtime.events.add(seen.job.id, seen.job.attempt, "stack", actor)
        before = os.fstat(file).st_size
        try:
            signal.pidfd_send_signal(process, STACK_SIGNAL)
        except ProcessLookupError:
            return Stack(why=f"The job's process {pid} is gone.")
        data = _written(file, before)
    finally:
        os.close(file)
    lines = stack_lines(data.decode("ascii", "replace"), runtime.config.redact_keys)
    if not lines:
        return Stack(
            why=f"Process {pid} has not answered within {PATIENCE:g} s; it may be suspended."
        )
    return Stack(lines=lines)


def _fault_file(pid: int) -> int | None:
    """faulthandler's file of a process, opened anew; None where it has none."""
    folder = Path(f"/proc/{pid}/fd")
    for entry in sorted(folder.iterdir(), key=lambda path: int(path.name)):
        try:
            if FAULT_NAME in str(entry.readlink()):
                return os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
    return None


def _written(file: int, before: int) -> bytes:
    """What is written from `before` on, once it is whole."""
    give_up, size, grew = time.monotonic() + PATIENCE, before, 0.0
    while (now := time.monotonic()) < give_up:
        found = os.fstat(file).st_size
        if found != size:
            size, grew = found, now
        elif size > before and now - grew >= SETTLED:
            break
        time.sleep(0.02)
    return without_marks(os.pread(file, min(size - before, _BYTES), before))
