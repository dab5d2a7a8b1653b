"""A new job without input, for people who start a type by hand."""

from __future__ import annotations

from flask_jobrunner.model.results import EnqueueResult, StartResult
from flask_jobrunner.repositories.listing import JobFilter
from flask_jobrunner.runtime import Runtime

from .enqueue import enqueue
from .prepare import check_payload
from .start import start


def needs_no_input(runtime: Runtime, job_type: str) -> None:
    """Raise `InvalidPayload` where the type's `payload=` wants fields, `UnknownJobType` as ever."""
    check_payload(runtime.handlers.find(job_type), None)


def by_hand(
    runtime: Runtime, job_type: str, *, actor: str | None = None, owner: str | None = None
) -> StartResult | EnqueueResult:
    """Through the queue where the newest job of the type went, else in a process at once."""
    newest = runtime.listing.find(JobFilter(job_type=job_type), limit=1).jobs
    owned = runtime.jobs.owned(newest[0].id) if newest else None
    if owned is not None and owned.claim_mode == "trusted":
        return enqueue(runtime, job_type, actor=actor, owner=owner)
    return start(runtime, job_type, actor=actor, owner=owner, wait=False)
