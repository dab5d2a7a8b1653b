"""`jobs.requeue`: the next attempt of the same row."""

from __future__ import annotations

from dataclasses import replace

from flask_jobrunner.handlers import Handler
from flask_jobrunner.model.errors import LockBusy
from flask_jobrunner.model.records import Job
from flask_jobrunner.model.results import RequeueResult
from flask_jobrunner.model.statuses import REQUEUEABLE
from flask_jobrunner.protocol.envelope import hash_credential, new_credential
from flask_jobrunner.recovery.settle import holder_settled, settle_row
from flask_jobrunner.runtime import Runtime

from .handover import Launched, Wait, launch_attempt
from .prepare import check_actor, check_can_launch, check_wait
from .start import refuse_uncommitted


def requeue(
    runtime: Runtime,
    ref: int | str,
    *,
    actor: str | None = None,
    confirm_lost: bool = False,
    wait: Wait = True,
) -> RequeueResult:
    """See `JobRunner.requeue`."""
    check_wait(wait)
    who = check_actor(runtime, actor)
    check_can_launch(runtime)
    refuse_uncommitted(runtime)
    runtime.meta.ensure()
    settled = settle_row(runtime, ref)
    if settled is None:
        return RequeueResult(status="not_found", job=None, message="There is no such job.")
    job = settled.job
    refusal = _refusal(job, confirm_lost=confirm_lost)
    if refusal is not None:
        return RequeueResult(status="not_requeueable", job=job, message=refusal)
    handler, credential = runtime.handlers.find(job.job_type), new_credential()
    for _ in (1, 2):
        moved = _requeue(runtime, handler, job, credential, who)
        if moved:
            # Enough of the new row to launch it: to read it could fail, and it is committed.
            waiting = replace(
                job, status="queued", is_active=True, is_terminal=False, attempt=job.attempt + 1
            )
            return _result(launch_attempt(runtime, waiting, credential, wait=wait))
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


def _requeue(
    runtime: Runtime, handler: Handler, job: Job, credential: str, actor: str | None
) -> bool | None:
    budget = runtime.config.queue_budget if handler.queue_budget is None else handler.queue_budget
    return runtime.jobs.requeue(
        job,
        credential_hash=hash_credential(credential),
        claim_window=runtime.config.claim_window,
        queue_budget=budget,
        revision=runtime.config.revision,
        config_digest=runtime.config.digest,
        actor=actor,
    )


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


def _refusal(job: Job, *, confirm_lost: bool) -> str | None:
    if job.status == "lost":
        if confirm_lost:
            return None
        return "The job is lost: its process may still be working. Confirm that to run it again."
    if job.status in REQUEUEABLE:
        return None
    return (
        f"The job is {job.status}; only one that failed, was cancelled or interrupted runs again."
    )
