"""Long-running jobs in Flask, kept in the application's own SQL database.

Read in this order: `extension`, then the folders one job passes through: `caller`, `shim`,
`child`, `repositories`, `dashboard`; `supervisor` for jobs that are pulled, and `recovery` for
jobs without their owner.
"""

from .child.context import JobContext
from .extension import JobRunner
from .model.errors import (
    ConfigError,
    InvalidPayload,
    JobCancelled,
    JobNotFound,
    JobRunnerError,
    LaunchUnknown,
    LockBusy,
    OwnershipLost,
    ProgramFailed,
    UncommittedChanges,
    UnknownJobType,
)
from .model.records import Job
from .model.statuses import JobStatus
from .runtime import process_role
from .signals import action_taken, cancel_requested, job_created, job_finished, job_started

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "InvalidPayload",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobNotFound",
    "JobRunner",
    "JobRunnerError",
    "JobStatus",
    "LaunchUnknown",
    "LockBusy",
    "OwnershipLost",
    "ProgramFailed",
    "UncommittedChanges",
    "UnknownJobType",
    "action_taken",
    "cancel_requested",
    "job_created",
    "job_finished",
    "job_started",
    "process_role",
]
