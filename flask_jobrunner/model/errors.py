"""Every error of ours has one root. Texts say what to do next."""

from __future__ import annotations


class JobRunnerError(Exception):
    """Root of all errors that flask_jobrunner raises."""


class ConfigError(JobRunnerError):
    """A `JOBRUNNER_…` setting, or the way the extension was set up, is wrong."""


class UnknownJobType(JobRunnerError):
    """No handler is registered under this job type."""

    reason_code = "handler_not_registered"


class HandlerError(JobRunnerError):
    """A handler cannot be used. `reason_code` is one of the handler reason codes."""

    def __init__(self, message: str, reason_code: str) -> None:
        super().__init__(message)
        self.reason_code = reason_code


class InvalidPayload(JobRunnerError):
    """The payload, or another argument of a start, cannot be stored or was refused."""

    reason_code = "invalid_payload"


class UncommittedChanges(JobRunnerError):
    """`db.session` holds changes that the job could not see."""


class JobNotFound(JobRunnerError):
    """No such job, or not one that may be seen."""


class LaunchError(JobRunnerError):
    """The operating system could not start the job's process."""


class LaunchUnknown(JobRunnerError):
    """The database went away between the commit and the answer: the job may be running.

    `job_uuid` says which; ask `jobs.get(job_uuid)` once the database is back.
    """

    def __init__(self, message: str, job_uuid: str) -> None:
        super().__init__(message)
        self.job_uuid = job_uuid


class LockBusy(JobRunnerError):
    """The database stayed locked by others for longer than we wait; nothing was changed."""

    code = "lock_busy"


class DatabaseAway(JobRunnerError):
    """The database could not be reached, or the connection broke in the middle."""


class DatabaseFull(DatabaseAway):
    """It answers, but takes no writes: nothing was changed, and trying later may help."""


class SchemaError(JobRunnerError):
    """Our tables are missing or of another version."""


class JobCancelled(JobRunnerError):
    """Raised inside a handler by `ctx.raise_if_cancelled()`; let it pass."""


class OwnershipLost(JobRunnerError):
    """Raised inside a handler by `ctx.check()`: the job may belong to somebody else by now."""


class ProgramFailed(JobRunnerError):
    """Raised inside a handler by `ctx.run()`: a program did not end with exit code 0.

    `returncode` is negative for a signal, None where the program could not be started. `argv` and
    `last_lines` are masked; `timed_out` says that `timeout` was over.
    """

    def __init__(
        self,
        message: str,
        *,
        argv: tuple[str, ...],
        returncode: int | None = None,
        last_lines: tuple[str, ...] = (),
        timed_out: bool = False,
    ) -> None:
        super().__init__(message)
        self.argv = argv
        self.returncode = returncode
        self.last_lines = last_lines
        self.timed_out = timed_out
