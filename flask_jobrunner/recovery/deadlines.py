"""Ending what waits for longer than it may: the deadline columns of queued rows."""

from __future__ import annotations

from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.model.statuses import Reason
from flask_jobrunner.model.words import REASON_WORDS
from flask_jobrunner.runtime import Runtime


def expire_queued(runtime: Runtime, seen: OwnedJob) -> bool:
    """Fail a queued row whose claim or queue deadline has passed. The UPDATE checks both again."""
    if seen.job.status != "queued":
        return False
    if seen.claim_deadline is not None and seen.claim_deadline <= seen.now:
        launched = seen.has_credential
        reason = Reason.LAUNCH_TIMEOUT if launched else Reason.NEVER_LAUNCHED
        return _fail(runtime, seen, reason, "claim_deadline")
    if seen.queue_deadline is not None and seen.queue_deadline <= seen.now:
        return _fail(runtime, seen, Reason.QUEUE_TIMEOUT, "queue_deadline")
    return False


def _fail(runtime: Runtime, seen: OwnedJob, reason: Reason, deadline: str) -> bool:
    return runtime.jobs.fail_queued(
        seen.job.id, seen.job.attempt, reason, message=REASON_WORDS[reason], deadline=deadline
    )
