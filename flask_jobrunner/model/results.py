"""What the calls of `JobRunner` answer: frozen, with `.status`, `.ok` and `to_dict()`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .files import File
from .records import Job, LogLine, plain
from .statuses import StatusText

LaunchStatus = Literal["started", "launching", "launch_failed"]
StartStatus = Literal["started", "launching", "already_active", "launch_failed"]
EnqueueStatus = Literal["queued", "already_active"]
CancelStatus = Literal[
    "cancelled", "cancel_requested", "already_cancel_requested", "already_terminal", "not_found"
]
RequeueStatus = Literal[
    "queued",
    "started",
    "launching",
    "launch_failed",
    "not_requeueable",
    "already_active",
    "not_found",
]

_OK = frozenset({"started", "launching", "queued"})


@dataclass(frozen=True, kw_only=True)
class _Result:
    job: Job | None
    reason_code: str | None = None
    message: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready values."""
        values: dict[str, Any] = plain(self)
        ok = getattr(self, "ok", None)
        return values if ok is None else {**values, "ok": ok}


@dataclass(frozen=True, kw_only=True)
class StartResult(_Result):
    """What `jobs.start` did. `.job` is the new job, or the active one that holds the lock."""

    job: Job
    status: StartStatus

    @property
    def ok(self) -> bool:
        """Whether the job was taken on: `started` or `launching`."""
        return self.status in _OK


@dataclass(frozen=True, kw_only=True)
class EnqueueResult(_Result):
    """What `jobs.enqueue` did. `.job` is the new job, or the active one that holds the lock."""

    job: Job
    status: EnqueueStatus

    @property
    def ok(self) -> bool:
        """Whether the job waits now for a supervisor."""
        return self.status in _OK


@dataclass(frozen=True, kw_only=True)
class CancelResult(_Result):
    """What `jobs.cancel` did."""

    status: CancelStatus
    previous_status: StatusText | None = None
    new_status: StatusText | None = None

    @property
    def ok(self) -> bool:
        """Whether the job is cancelled, or was asked to stop (now or before)."""
        return self.status in ("cancelled", "cancel_requested", "already_cancel_requested")


@dataclass(frozen=True, kw_only=True)
class RequeueResult(_Result):
    """What `jobs.requeue` did: the next attempt of the same row."""

    status: RequeueStatus

    @property
    def ok(self) -> bool:
        """Whether a next attempt was taken on."""
        return self.status in _OK


@dataclass(frozen=True, kw_only=True)
class StatusResult(_Result):
    """A job with a slice of its log. `last_log_seq` goes into the next call unchanged."""

    status: Literal["found", "not_found"]
    logs: list[LogLine] = field(default_factory=list)
    last_log_seq: int = 0
    result: Any = None
    error: dict[str, Any] | None = None
    """`class`, `reason_code`, `message`; None while there is none."""

    artifacts: list[File] = field(default_factory=list)
    """What its attempts published, the first attempt's first."""

    @property
    def ok(self) -> bool:
        """Whether the job was found."""
        return self.status == "found"


@dataclass(frozen=True, kw_only=True)
class InlineResult(_Result):
    """How a job that ran in this process ended."""

    status: StatusText
    result: Any = None
    error: dict[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == "succeeded"


@dataclass(frozen=True, kw_only=True)
class ProgramResult:
    """How a program of `ctx.run()` ended. `last_lines` are masked; `seconds` is its wall time."""

    returncode: int
    lines: int
    seconds: float
    last_lines: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.returncode == 0
