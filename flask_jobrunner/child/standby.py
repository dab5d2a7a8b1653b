"""A process that has built the application and waits for the one job that it will run.

Until its envelope comes it belongs to no job: it holds no connection and no lease, and ends with
its supervisor. From then on it is what a process that was started for the job is at the same
point, or it refuses, and another one is started.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from flask import Flask

from flask_jobrunner.model.errors import JobRunnerError
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.protocol.envelope import Envelope
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.protocol.messages import STANDBY_MAX_AGE
from flask_jobrunner.runtime import Runtime, building, set_process_role

from .boot import build, enter, open_envelope, read_line, run_booted
from .claim import Refused
from .clean import Standing, leave_a_deleted_directory
from .leave import flush_output
from .parent import Parent
from .sources import Sources
from .steady import Clock, Owner

OUTDATED = "standby_outdated"
_SET_PARENT_DEATH_SIGNAL = 1
_READ_BYTES = 1 << 16


def main(load_app: Callable[[], Flask]) -> int:
    """Build, wait for an envelope, run its job, and end this process."""
    return enter(partial(_stand_by, load_app))


def _stand_by(
    load_app: Callable[[], Flask], standing: Standing, parent: Parent, owner: Owner
) -> int:
    _end_with_parent(signal.SIGKILL)
    clock, sources = Clock(), Sources()
    began = clock.monotonic()
    runtime = build(load_app)
    fingerprint = _warm(runtime)
    match = runtime.likeness()
    runtime.meta.forget()
    if (path := sources.close()) is not None:
        raise Refused(f"{path} changed while it was read.", OUTDATED, ExitCode.REFUSED)
    parent.tell("booted")
    parent.tell("warm", match=match)
    fault_point("standby.ready")
    line, rest = read_line(standing.control, None)
    if not line:
        return ExitCode.OK
    envelope = open_envelope(line, "trusted")
    fault_point("standby.handed")
    why = _why_not(runtime, envelope, fingerprint, clock.monotonic() - began, sources)
    if why is not None:
        raise Refused(why, OUTDATED, ExitCode.REFUSED)
    _become_a_job(standing)
    return run_booted(runtime, envelope, rest, standing, parent, owner)


def _warm(runtime: Runtime) -> str:
    """Import what jobs need, see that the database is the right one, and let go of it again.

    The answer is the database's fingerprint.
    """
    for job_type in runtime.handlers:
        # The job itself will tell why its handler cannot be had.
        try:
            with building(), runtime.app.app_context():
                runtime.handlers.resolve(job_type)
        except BaseException:  # noqa: BLE001, S112 - a module may do anything while it is imported
            continue
    try:
        fingerprint = runtime.meta.ensure().fingerprint
    except JobRunnerError as error:
        raise Refused(str(error), "app_not_built", ExitCode.CONFIGURATION) from error
    runtime.let_go()
    return fingerprint


def _why_not(
    runtime: Runtime, envelope: Envelope, fingerprint: str, age: float, sources: Sources
) -> str | None:
    """Why a process that is started now would not be like this one."""
    if age > STANDBY_MAX_AGE:
        return f"It has waited for {age:.0f} s."
    if envelope.fingerprint != fingerprint:
        return "It was built on another database."
    if envelope.config_digest != runtime.config.digest:
        return "It was built with other settings."
    if envelope.revision not in (None, runtime.config.revision):
        return f"It is of revision {runtime.config.revision}, the job of {envelope.revision}."
    path = sources.changed()
    return None if path is None else f"{path} is not what it was when this process read it."


def _become_a_job(standing: Standing) -> None:
    """From here on all is the job's: what it prints, where it is, and that it outlives others."""
    _end_with_parent(0)
    leave_a_deleted_directory()
    importlib.invalidate_caches()
    flush_output()
    for pipe, number in ((standing.output, 1), (standing.errors, 2)):
        # What was printed before is of no job. Where a wrapper closed this end it stays unread,
        # for the job's own pipes take its place.
        if pipe is not None and pipe.is_same_file(number):
            os.set_blocking(pipe.number, False)
            while pipe.read(_READ_BYTES):
                pass
    set_process_role("job")


def _end_with_parent(number: int) -> None:
    """Get this signal when the supervisor dies; 0 for none. Also while C code holds the process.

    Elsewhere than on Linux the end of the input has to do.
    """
    with suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number, 0, 0, 0)
