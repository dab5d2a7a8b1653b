"""What a host's test asks for: which jobs were started."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .files import File
from .records import Job

RecordedKind = Literal["start", "enqueue", "requeue"]


@dataclass(frozen=True, kw_only=True)
class RecordedJob:
    """One call that was made in JOBRUNNER_MODE `record` or `inline`, with what it asked for."""

    kind: RecordedKind
    job_type: str
    payload: dict[str, Any] | None
    """As its handler gets it: what JSON makes of the mapping."""
    lock_key: str | None
    title: str | None
    owner: str | None
    reference: str | None
    actor: str | None
    priority: int
    not_before: datetime | None
    job: Job
    """The job as it was then: queued. `jobs.get(recorded.job.uuid)` is how it is now."""
    files: list[File] = field(default_factory=list)
    """What it was given."""
