"""A new job with another one's type and payload, for people who start it by hand."""

from __future__ import annotations

from flask_jobrunner.files.inputs import Files, files_of
from flask_jobrunner.model.errors import InvalidPayload
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.model.results import EnqueueResult, StartResult
from flask_jobrunner.runtime import Runtime

from .enqueue import enqueue
from .start import start


def again(
    runtime: Runtime, owned: OwnedJob, *, actor: str | None = None
) -> StartResult | EnqueueResult:
    """Pushed or pulled like the first one, with its lock key, title, owner, reference and files.

    Raises `InvalidPayload` where what is stored cannot be read any more or a file that the first
    one was given is gone, and what `start` raises.
    """
    job = owned.job
    if job.payload is None and owned.payload_json is not None:
        raise InvalidPayload(f"The stored payload of job {job.uuid} cannot be read.")
    files: Files = files_of(runtime, job)
    if owned.claim_mode == "trusted":
        return enqueue(
            runtime,
            job.job_type,
            job.payload,
            lock_key=job.lock_key,
            title=job.title,
            owner=job.owner,
            reference=job.reference,
            actor=actor,
            files=files,
            priority=job.priority,
        )
    return start(
        runtime,
        job.job_type,
        job.payload,
        lock_key=job.lock_key,
        title=job.title,
        owner=job.owner,
        reference=job.reference,
        actor=actor,
        files=files,
        wait=False,
    )
