"""Ending an owner that does not stop by itself, on the host where it runs.

Only what the kernel vouches for is signalled: a descriptor of the process is opened first, and its
start ticks are compared while it is held, so that no number can mean somebody else meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flask_jobrunner.model.errors import UnknownJobType
from flask_jobrunner.model.records import Identity, OwnedJob
from flask_jobrunner.model.statuses import OWNED, StopReason
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.shim.evidence import end_leftovers

TERM_GRACE = 5.0
KILL_PATIENCE = 2.0
_FINAL = ("force", "run_timeout", "stall")
"""Stops that do not leave a job all the time it takes."""


def is_overdue(runtime: Runtime, seen: OwnedJob) -> bool:
    """Whether an owner should have ended by now, if it was silent since its last heartbeat.

    By the database's clock, which may have been set: it ends nobody who goes on to renew.
    """
    reason, grace = overdue_reason(seen), _cancel_grace(runtime, seen)
    if seen.job.status not in OWNED or seen.is_inline or reason is None:
        return False
    since = seen.heartbeat or 0
    if reason == "cancel":
        if grace is None:
            return False
        since = max(since, seen.cancel_requested_at or 0)
    elif seen.job.stop_reason not in _FINAL:
        since = max(since, seen.run_deadline or 0)
    return seen.now > since + (grace or 0.0) * 1_000_000


def overdue_reason(seen: OwnedJob) -> StopReason | None:
    """Why it should have ended; None where nothing says so."""
    if seen.job.stop_reason in _FINAL:
        return seen.job.stop_reason
    if seen.job.status == "cancel_requested":
        return "cancel"
    return None if seen.run_deadline is None else "run_timeout"


def _cancel_grace(runtime: Runtime, seen: OwnedJob) -> float | None:
    """Seconds that the handler has to stop once it should end; None: a cancel only asks."""
    try:
        handler = runtime.handlers.find(seen.job.job_type)
    except UnknownJobType:
        return runtime.config.cancel_grace
    return runtime.budget(handler, "cancel_grace")


def end_owner(
    runtime: Runtime,
    seen: OwnedJob,
    *,
    grace: float = TERM_GRACE,
    by: str = "sweep",
    actor: str | None = None,
) -> bool:
    """End the process that owns the job, and what is left of its session: TERM, CONT, `grace`
    seconds, KILL. False when it cannot be seen from here, or may not be signalled, or is there
    for more than this job. `by`, a key of `KILLERS`, and `actor` are kept as an event.
    """
    if seen.is_inline:
        return False
    look = identity.look(seen.worker, runtime.config.instance)
    if look == "unseen":
        return False
    if look == "alive" and not _end(
        seen.worker,
        grace,
        lambda: runtime.events.add(seen.job.id, seen.job.attempt, "kill", actor, by),
    ):
        return False
    end_what_is_left(seen)
    return True


def end_what_is_left(seen: OwnedJob) -> int:
    """End what is left of a dead owner's process group, if its numbers mean anything here; how
    many processes there were.
    """
    worker, here = seen.worker, identity.this_process()
    if seen.is_inline:
        return 0  # what else is in that session is not the job's
    if (worker.host, worker.boot, worker.pid_ns) != (here.host, here.boot, here.pid_ns):
        return 0
    if worker.pid is None or worker.ticks is None:
        return 0
    return end_leftovers(worker.pid, worker.ticks)


def _end(worker: Identity, grace: float, tell: Callable[[], object]) -> bool:
    """`tell` is called once the process has taken the first signal."""
    with verified(worker) as process:
        if process is None:
            return True  # it ended by itself just now
        try:
            signal.pidfd_send_signal(process, signal.SIGTERM)
            signal.pidfd_send_signal(process, signal.SIGCONT)  # a stopped process takes no TERM
            tell()
            fault_point("cancel.signalled")
            if not _gone_within(process, grace):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        except PermissionError:
            return False
        except ProcessLookupError:
            return True
        return _gone_within(process, KILL_PATIENCE)


@contextmanager
def verified(worker: Identity) -> Iterator[int | None]:
    """A descriptor of exactly this process, or None when it is gone."""
    process = None
    if worker.pid is not None:
        with contextlib.suppress(OSError):
            process = os.pidfd_open(worker.pid)
    try:
        # Compared while it is held: from here on the descriptor means what was compared.
        stat = identity.read_stat(worker.pid or 0) if process is not None else None
        same = stat is not None and stat[1] == worker.ticks and stat[0] not in "ZX"
        yield process if same else None
    finally:
        if process is not None:
            os.close(process)


def _gone_within(process: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
