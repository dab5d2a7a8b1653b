"""`jobs.requeue`: the next attempt of the same row."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from flask_jobrunner.model.errors import InvalidPayload, LockBusy
from flask_jobrunner.model.records import Job, OwnedJob
from flask_jobrunner.model.results import RequeueResult
from flask_jobrunner.model.statuses import REQUEUEABLE
from flask_jobrunner.protocol.envelope import hash_credential, new_credential
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.recovery.settle import holder_settled, settle_row
from flask_jobrunner.runtime import Runtime

from .add import refuse_uncommitted
from .handover import Launched, Wait
from .prepare import check_actor, check_can_be_seen, check_can_launch, check_wait
from .tested import hand_over, needs_credential, record, take_from_queue

LONGEST_DELAY = 366 * 86400


def requeue(
    runtime: Runtime,
    ref: int | str,
    *,
    actor: str | None = None,
    delay: float | timedelta | None = None,
    confirm_lost: bool = False,
    wait: Wait = True,
) -> RequeueResult:
    """See `JobRunner.requeue`."""
    check_wait(wait)
    who, seconds = check_actor(runtime, actor), _seconds(delay)
    check_can_be_seen(runtime)
    refuse_uncommitted(runtime)
    settled = _settled(runtime, ref, seconds)
    if settled is None:
        return RequeueResult(status="not_found", job=None, message="There is no such job.")
    job = settled.job
    refusal = _refusal(runtime, settled, confirm_lost=confirm_lost)
    if refusal is not None:
        return RequeueResult(status="not_requeueable", job=job, message=refusal)
    runtime.meta.ensure()
    pushed = settled.claim_mode == "token"
    credential = new_credential() if pushed and needs_credential(runtime) else None
    for _ in (1, 2):
        moved = _requeue(runtime, settled, credential, who, seconds)
        if moved:
            return _moved(runtime, settled, credential, wait)
        if moved is not None:
            return _overtaken(runtime, job)
        holder = holder_settled(runtime, job.lock_key or "")
        if holder is not None:
            return RequeueResult(
                status="already_active",
                job=holder,
                message=f"Job {holder.uuid} holds the lock key; it is {holder.status}.",
            )
    raise LockBusy(f"The lock key {job.lock_key!r} changes hands too fast; try again.")


def other_revision(runtime: Runtime, owned: OwnedJob) -> bool:
    """Whether a job waits for supervisors of another revision than this process's."""
    waits = owned.claim_mode == "trusted" and owned.job.status == "queued"
    return waits and owned.revision not in (None, runtime.config.revision)


def _settled(runtime: Runtime, ref: int | str, delay: float | None) -> OwnedJob | None:
    """The row, settled; raises where what it is can neither be launched nor wait."""
    runtime.meta.check()
    settled = settle_row(runtime, ref)
    if settled is None or settled.claim_mode == "token":
        check_can_launch(runtime)
    if settled is not None and settled.claim_mode == "token" and delay is not None:
        raise InvalidPayload(
            f"Job {settled.job.uuid} was started by jobs.start: nobody is there to launch it "
            "later. delay= is for jobs made by jobs.enqueue."
        )
    return settled


def _requeue(
    runtime: Runtime,
    settled: OwnedJob,
    credential: str | None,
    actor: str | None,
    delay: float | None,
) -> bool | None:
    return runtime.jobs.requeue(
        settled.job,
        claim_mode=settled.claim_mode,
        credential_hash=hash_credential(credential) if credential else None,
        claim_window=runtime.config.claim_window if credential else None,
        queue_budget=runtime.budget(runtime.handlers.find(settled.job.job_type), "queue_budget"),
        revision=runtime.config.revision,
        config_digest=runtime.config.digest,
        delay=delay,
        actor=actor,
    )


def _moved(
    runtime: Runtime, settled: OwnedJob, credential: str | None, wait: Wait
) -> RequeueResult:
    fault_point("requeue.committed")
    job = settled.job
    # Enough of the new row to launch it: to read it could fail, and it is committed.
    waiting = replace(
        job, status="queued", is_active=True, is_terminal=False, attempt=job.attempt + 1
    )
    record(runtime, "requeue", waiting)
    if settled.claim_mode == "trusted":
        now = runtime.jobs.get(job.id) or waiting
        return RequeueResult(status="queued", job=take_from_queue(runtime, now))
    return _result(hand_over(runtime, waiting, credential, wait=wait))


def _result(launched: Launched) -> RequeueResult:
    return RequeueResult(
        status=launched.status,
        job=launched.job,
        reason_code=launched.reason_code,
        message=launched.message,
    )


def _overtaken(runtime: Runtime, job: Job) -> RequeueResult:
    now = runtime.jobs.get(job.id)
    text = f"The job has just become {now.status}." if now else "The job is gone."
    return RequeueResult(status="not_requeueable", job=now, message=text)


def _refusal(runtime: Runtime, settled: OwnedJob, *, confirm_lost: bool) -> str | None:
    job = settled.job
    if job.status == "lost":
        if confirm_lost:
            return None
        return "The job is lost: its process may still be working. Confirm that to run it again."
    if job.status in REQUEUEABLE or other_revision(runtime, settled):
        return None
    return (
        f"The job is {job.status}; only one that failed, was cancelled or interrupted runs again."
    )


def _seconds(delay: object) -> float | None:
    if delay is None:
        return None
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise InvalidPayload("delay must be a number of seconds or a timedelta.")
    if not 0 <= seconds <= LONGEST_DELAY:
        raise InvalidPayload("delay must be from 0 to a year.")
    return float(seconds)
