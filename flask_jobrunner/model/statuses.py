"""The closed set of statuses, who moves a job between them, and the codes that say why."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


class JobStatus(StrEnum):
    """A job's status. Three are active, five are terminal; there are no others."""

    QUEUED = "queued"
    """Committed, nobody owns it. Left by the child's claim, a cancel, or a failed launch."""
    RUNNING = "running"
    """Owned by a child. Left by its owner, or by whoever proves the owner dead."""
    CANCEL_REQUESTED = "cancel_requested"
    """Owned, and asked to stop. Left like `running`."""
    SUCCEEDED = "succeeded"
    """The handler returned and its result was stored."""
    FAILED = "failed"
    """The handler raised, or the job could not be started or ran out of its budget."""
    CANCELLED = "cancelled"
    """Somebody asked, and the job is over; what the handler returned is kept."""
    INTERRUPTED = "interrupted"
    """The owner ended without a result; what it did may be incomplete."""
    LOST = "lost"
    """The owner cannot be seen any more; it may still be working, so the lock is kept."""


StatusText = Literal[
    "queued",
    "running",
    "cancel_requested",
    "succeeded",
    "failed",
    "cancelled",
    "interrupted",
    "lost",
]
ClaimMode = Literal["token", "trusted"]
"""`token`: pushed, its caller launches it. `trusted`: pulled, a supervisor hands it out."""

ACTIVE = frozenset({JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.CANCEL_REQUESTED})
OWNED = frozenset({JobStatus.RUNNING, JobStatus.CANCEL_REQUESTED})
TERMINAL = frozenset(JobStatus) - ACTIVE
REQUEUEABLE = frozenset({JobStatus.INTERRUPTED, JobStatus.FAILED, JobStatus.CANCELLED})

# `from` None: the row is made. What is not here, the repositories refuse before they write.
MOVES: frozenset[tuple[JobStatus | None, JobStatus]] = frozenset(
    {
        (None, JobStatus.QUEUED),
        (JobStatus.QUEUED, JobStatus.RUNNING),
        (JobStatus.QUEUED, JobStatus.CANCELLED),
        (JobStatus.QUEUED, JobStatus.FAILED),
        (JobStatus.RUNNING, JobStatus.CANCEL_REQUESTED),
        (JobStatus.RUNNING, JobStatus.SUCCEEDED),
        (JobStatus.RUNNING, JobStatus.FAILED),
        (JobStatus.RUNNING, JobStatus.INTERRUPTED),
        (JobStatus.RUNNING, JobStatus.CANCELLED),  # a verdict only, after a forced stop
        (JobStatus.RUNNING, JobStatus.QUEUED),
        (JobStatus.RUNNING, JobStatus.LOST),
        (JobStatus.CANCEL_REQUESTED, JobStatus.CANCELLED),
        (JobStatus.CANCEL_REQUESTED, JobStatus.FAILED),
        (JobStatus.CANCEL_REQUESTED, JobStatus.LOST),
        (JobStatus.INTERRUPTED, JobStatus.QUEUED),
        (JobStatus.FAILED, JobStatus.QUEUED),
        (JobStatus.CANCELLED, JobStatus.QUEUED),
        (JobStatus.LOST, JobStatus.QUEUED),
        (JobStatus.LOST, JobStatus.CANCELLED),
    }
)


def may_move(from_status: str, to_status: str) -> bool:
    """Whether a job of one status may become one of the other."""
    return (from_status, to_status) in MOVES


StopReason = Literal["shutdown", "stall", "run_timeout", "cancel", "force"]
STOP_REASONS: tuple[StopReason, ...] = ("shutdown", "stall", "run_timeout", "cancel", "force")
"""Why a stop was asked, weakest first. The column only rises."""


POISON_DEATHS = 3
"""So many processes may die of one job before its handler begins."""


class Reason(StrEnum):
    """Why a job ended as it did: `error_reason_code`, a closed list."""

    LAUNCH_FAILED = "launch_failed"
    LAUNCH_TIMEOUT = "launch_timeout"
    NEVER_LAUNCHED = "never_launched"
    QUEUE_TIMEOUT = "queue_timeout"
    REVISION_MISMATCH = "revision_mismatch"
    POISON = "poison"
    HANDLER_NOT_REGISTERED = "handler_not_registered"
    HANDLER_NOT_IMPORTABLE = "handler_not_importable"
    HANDLER_CONTRACT_MISMATCH = "handler_contract_mismatch"
    INVALID_PAYLOAD = "invalid_payload"
    HANDLER_RAISED = "handler_raised"
    HANDLER_EXITED = "handler_exited"
    RESULT_NOT_ENCODABLE = "result_not_encodable"
    RESULT_TOO_LARGE = "result_too_large"
    CANCELLED_UNASKED = "cancelled_unasked"
    RUN_TIMEOUT = "run_timeout"
    STALLED = "stalled"
    NOT_STARTED = "not_started"
    SHUTDOWN = "shutdown"
    PROCESS_DIED = "process_died"
    CANCEL_FORCED = "cancel_forced"
    OWNER_GONE = "owner_gone"
    LOST_CLOSED = "lost_closed"


BOOT_REFUSALS = frozenset(
    {
        "bad_envelope",
        "bad_credential",
        "fingerprint_mismatch",
        "schema_mismatch",
        "app_not_built",
    }
)
"""What a child may answer instead of a claim; stored as evidence beside `launch_failed`."""


class ExitCode:
    """What `flask jobs …` exits with."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    WAIT_TIMED_OUT = 4
    REFUSED = 5
    INTERRUPTED = 6
    DATABASE = 69
    CONFIGURATION = 78


def exit_code_of(status: str) -> int:
    """The exit code that stands for a terminal status; an active one counts as a timed-out wait."""
    if status in (JobStatus.SUCCEEDED, JobStatus.CANCELLED):
        return ExitCode.OK
    if status == JobStatus.FAILED:
        return ExitCode.FAILED
    if status in (JobStatus.INTERRUPTED, JobStatus.LOST):
        return ExitCode.INTERRUPTED
    return ExitCode.WAIT_TIMED_OUT
