"""`jobs.requeue`: the next attempt of the same row."""

from __future__ import annotations

from flask_jobrunner.model.records import Job
from flask_jobrunner.model.results import RequeueResult
from flask_jobrunner.model.statuses import REQUEUEABLE
from flask_jobrunner.protocol.envelope import hash_credential, new_credential
from flask_jobrunner.recovery.settle import holder_settled, settle_row
from flask_jobrunner.runtime import Runtime

from .handover import Wait, launch_attempt
from .prepare import check_can_launch
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
    handler = runtime.handlers.find(job.job_type)
    credential = new_credential()
    budget = runtime.config.queue_budget if handler.queue_budget is None else handler.queue_budget
    moved = runtime.jobs.requeue(
        job,
        credential_hash=hash_credential(credential),
        claim_window=runtime.config.claim_window,
        queue_budget=budget,
        revision=runtime.config.revision,
        config_digest=runtime.config.digest,
        actor=actor if actor is not None else runtime.hooks.current_actor(),
    )
    now = runtime.jobs.get(job.id)
    if moved is None:
        return _held(runtime, job)
    if not moved or now is None:
        text = f"The job has just become {now.status if now else 'unknown'}."
        return RequeueResult(status="not_requeueable", job=now, message=text)
    launched = launch_attempt(runtime, now, credential, wait=wait)
    return RequeueResult(
        status=launched.status,
        job=launched.job,
        reason_code=launched.reason_code,
        message=launched.message,
    )


def _refusal(job: Job, *, confirm_lost: bool) -> str | None:
    if job.status == "lost":
        if confirm_lost:
            return None
        return "The job is lost: its process may still be working. Confirm that to run it again."
    if job.status in REQUEUEABLE:
        return None
    return f"The job is {job.status}; only an ended job without a result can run again."


def _held(runtime: Runtime, job: Job) -> RequeueResult:
    holder = holder_settled(runtime, job.lock_key or "")
    return RequeueResult(
        status="already_active",
        job=holder or job,
        message=f"Another job holds the lock key {job.lock_key!r}.",
    )
