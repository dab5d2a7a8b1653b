"""Rows as they leave the repositories: frozen, keyword-only, with aware UTC times."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from .statuses import ClaimMode, StatusText, StopReason

if TYPE_CHECKING:
    from .files import NewFile


def plain(value: Any) -> Any:
    """A record's value as JSON has it: times in ISO 8601, nested records as mappings."""
    if isinstance(value, datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job as anybody may see it. `payload` is intact here; views mask it."""

    id: int
    uuid: str
    job_type: str
    title: str | None
    status: StatusText
    is_active: bool
    is_terminal: bool
    is_stale: bool
    """Owned, but the lease has run out: late, which by itself proves nothing."""
    stop_reason: StopReason | None
    attempt: int
    priority: int
    owner: str | None
    reference: str | None
    actor: str | None
    lock_key: str | None
    payload: dict[str, Any] | None
    current_step_key: str | None
    current_step_label: str | None
    step_index: int | None
    step_total: int | None
    progress_done: int | None
    progress_total: int | None
    warning_count: int
    error_count: int
    created_at: datetime
    queued_at: datetime
    not_before: datetime | None
    started_at: datetime | None
    handler_started_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    error_class: str | None
    error_reason_code: str | None
    error_message: str | None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        result: dict[str, Any] = plain(self)
        return result


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Which process: enough to tell it from every other, now or after a reboot."""

    instance: str | None
    incarnation: str | None
    host: str | None
    boot: str | None
    pid_ns: str | None
    pid: int | None
    ticks: int | None
    """Start time in clock ticks since boot: a reused pid has others."""


NOBODY = Identity(
    instance=None, incarnation=None, host=None, boot=None, pid_ns=None, pid=None, ticks=None
)


@dataclass(frozen=True, kw_only=True)
class OwnedJob:
    """A job with the columns that decide who may move it. Never shown."""

    job: Job
    claim_mode: ClaimMode
    has_credential: bool
    worker_token: str | None
    worker: Identity
    parent: Identity
    lease_until: int | None
    claim_deadline: int | None
    queue_deadline: int | None
    run_deadline: int | None
    heartbeat: int | None
    now: int
    """The database's clock when the row was read, in microseconds, like the deadlines."""
    revision: str | None
    config_digest: str | None
    row_version: int
    log_seq: int
    base_url: str | None
    result_json: str | None
    payload_json: str | None = None
    """As stored: a worker must not take an unreadable payload for none."""
    dispatch_by: str | None = None
    """The supervisor that handed the job to its process."""
    dispatch_until: int | None = None
    """Until when nobody else may hand it out."""
    cancel_requested_at: int | None = None
    unstarted_deaths: int = 0
    """How often its process died between building the application and the start marker."""
    log_bytes: int = 0

    @property
    def started(self) -> bool:
        """Whether the start marker is set: from here on the handler may have had effects."""
        return self.job.handler_started_at is not None

    @property
    def is_inline(self) -> bool:
        """Whether it runs inside a process that is there for more, such as a web server's.

        Such an owner is its own parent: nobody watches it, and nobody may end it for the job.
        """
        return self.worker.pid is not None and self.worker == self.parent


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One stored line."""

    seq: int
    attempt: int
    created_at: datetime
    level: str
    stream: str
    step_key: str | None
    message: str
    context: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        result: dict[str, Any] = plain(self)
        return result


class NewLine(NamedTuple):
    """A line on its way into the log. `at` is microseconds UTC; None: when it is written.

    A tuple, as a job may print a million of them.
    """

    message: str
    level: str = "info"
    stream: str = ""
    step_key: str | None = None
    context_json: str | None = None
    at: int | None = None


@dataclass(frozen=True, kw_only=True)
class Event:
    """One transition or deed: append-only, written in the transaction that made it true."""

    action: str
    actor: str | None
    from_status: str | None
    to_status: str | None
    attempt: int
    reason: str | None
    evidence: dict[str, Any] | None
    at: datetime
    id: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        result: dict[str, Any] = plain(self)
        return result


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt: who ran it, where, and how it ended."""

    id: int
    attempt: int
    mode: ClaimMode
    revision: str | None
    worker: Identity
    parent: Identity
    claimed_at: datetime
    handler_started_at: datetime | None
    ended_at: datetime | None
    end_status: str | None
    end_reason: str | None
    exit_code: int | None
    signal: int | None
    peak_rss: int | None
    """Bytes."""
    cpu_us: int | None
    error_class: str | None
    error_message: str | None
    traceback: str | None
    evidence: dict[str, Any] | None
    """The parent's report, once it has come."""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        result: dict[str, Any] = plain(self)
        return result


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of jobs, newest first. `next_cursor` is None at the end."""

    jobs: list[Job]
    next_cursor: str | None
    previous_cursor: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The page as JSON-ready values."""
        result: dict[str, Any] = plain(self)
        return result


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """What a row is made from; everything is checked and encoded before."""

    uuid: str
    job_type: str
    claim_mode: ClaimMode = "token"
    credential_hash: str | None
    claim_window: float | None
    """Seconds from the insert to the claim deadline; None: it waits for a supervisor."""
    title: str | None = None
    owner: str | None = None
    reference: str | None = None
    actor: str | None = None
    lock_key: str | None = None
    payload_json: str | None = None
    queue_budget: float | None = None
    """Seconds that it may wait, counted from `not_before` where that lies ahead."""
    priority: int = 0
    not_before: int | None = None
    """Microseconds UTC."""
    revision: str | None = None
    config_digest: str | None = None
    base_url: str | None = None
    files: tuple[NewFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fence:
    """What every write of an owner is guarded with."""

    job_id: int
    attempt: int
    token: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim that was won."""

    fence: Fence
    attempt_id: int
    """`ctx.fence`: the id of the attempt's row, which grows with every claim."""
    claimed_at: int
    owned: OwnedJob


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The newest step and progress, coalesced; written with the next beat."""

    step_key: str | None = None
    step_label: str | None = None
    step_index: int | None = None
    step_total: int | None = None
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True, kw_only=True)
class BeatAnswer:
    """What the owner learns from a beat."""

    status: StatusText
    stop_reason: StopReason | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an owner wants its attempt to end. The row may still say `cancelled`."""

    status: StatusText
    reason: str | None = None
    error_class: str | None = None
    error_message: str | None = None
    traceback: str | None = None
    result_json: str | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an owner's death means for its job."""

    status: StatusText
    reason: str | None
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)
    unstarted_deaths: int = 0
    """What the row counts from now on, where the job waits again."""


def type_fits(job_type: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns (`*`, `?`, `[…]`) fits; without any, every type does."""
    return not patterns or any(fnmatchcase(job_type, one) for one in patterns)


@dataclass(frozen=True, kw_only=True)
class Supervisor:
    """One `flask jobs work`, as its row tells."""

    uuid: str
    process: Identity
    types: tuple[str, ...]
    """Patterns of the job types that it takes; none: all."""
    slots: int
    standby: int
    revision: str | None
    version: str | None
    started_at: datetime
    heartbeat_at: datetime
    drain_requested_at: datetime | None
    silent_for: float
    """Seconds since its last sign of life, by the database's clock."""

    def takes_type(self, job_type: str) -> bool:
        """Whether it takes jobs of this type."""
        return type_fits(job_type, self.types)

    def takes_revision(self, revision: str | None) -> bool:
        """Whether it takes jobs that were made for this revision."""
        return revision is None or revision == self.revision
