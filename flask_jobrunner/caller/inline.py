"""`jobs.run_inline`: the same row and handler, in the process that asks.

For tests and short local work: it blocks, and keeps less of the output. See `here`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from flask_jobrunner.files.inputs import Files, add_with_files, check_files
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.model.results import InlineResult
from flask_jobrunner.protocol.encoding import decode_json
from flask_jobrunner.protocol.envelope import hash_credential, new_credential
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.signals import job_created, send

from .add import add_or_holder, held_by, refuse_uncommitted
from .here import run_here
from .prepare import prepare


def run_inline(
    runtime: Runtime,
    job_type: str,
    payload: dict[str, Any] | None = None,
    *,
    lock_key: str | None = None,
    title: str | None = None,
    owner: str | None = None,
    reference: str | None = None,
    actor: str | None = None,
    files: Files | None = None,
) -> InlineResult:
    """See `JobRunner.run_inline`.

    Where another job holds the lock key, `.job` and `.status` are that job's, which is active,
    and `.reason_code` is `already_active`.
    """
    credential = new_credential()
    new = prepare(
        runtime,
        runtime.handlers.find(job_type),
        payload,
        credential_hash=hash_credential(credential),
        claim_window=runtime.config.claim_window,
        lock_key=lock_key,
        title=title,
        owner=owner,
        reference=reference,
        actor=actor,
    )
    check_files(runtime, files)
    refuse_uncommitted(runtime)
    runtime.meta.ensure()
    job = add_with_files(runtime, new, files, partial(add_or_holder, runtime))
    if job.uuid != new.uuid:
        return InlineResult(
            status=job.status, job=job, reason_code="already_active", message=held_by(job)
        )
    send(job_created, runtime.app, job=job)
    return _result(run_here(runtime, job, credential))


def _result(ended: OwnedJob) -> InlineResult:
    job = ended.job
    error = None
    if job.error_reason_code is not None:
        error = {
            "class": job.error_class,
            "reason_code": job.error_reason_code,
            "message": job.error_message,
        }
    return InlineResult(
        status=job.status,
        job=job,
        reason_code=job.error_reason_code,
        message=job.error_message,
        result=decode_json(ended.result_json),
        error=error,
    )
