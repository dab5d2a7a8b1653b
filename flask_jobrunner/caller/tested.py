"""JOBRUNNER_MODE `record` and `inline`: a host's tests start jobs without a process or a thread."""

from __future__ import annotations

from flask_jobrunner.child.claim import Refused
from flask_jobrunner.model.errors import ConfigError, OwnershipLost
from flask_jobrunner.model.recorded import RecordedJob, RecordedKind
from flask_jobrunner.model.records import Job
from flask_jobrunner.protocol.envelope import hash_credential, new_credential
from flask_jobrunner.repositories.dispatch import Candidate
from flask_jobrunner.runtime import Runtime

from .handover import Launched, Wait, from_row, launch_attempt
from .here import run_here

NOBODY = "nobody:inline"
"""Who hands out a pulled job where no supervisor is."""


def hand_over(runtime: Runtime, job: Job, credential: str | None, *, wait: Wait) -> Launched:
    """Have `job`'s current attempt run as JOBRUNNER_MODE says: see `launch_attempt`.

    In the modes for tests the answer is that of a launch that goes well: what the view under test
    does with it is what it does in production.
    """
    if credential is not None and not runtime.is_tested:
        return launch_attempt(runtime, job, credential, wait=wait)
    if credential is not None:
        try:
            job = run_here(runtime, job, credential).job
        except (Refused, OwnershipLost):
            ended = from_row(runtime, job)
            if ended.status == "launch_failed":
                return ended
            job = ended.job
    return Launched(status="started" if wait else "launching", job=job)


def take_from_queue(runtime: Runtime, job: Job) -> Job:
    """In `inline` mode, do what a supervisor would; elsewhere, leave the job to one.

    `not_before` is not waited for.
    """
    if runtime.config.mode != "inline":
        return job
    credential = new_credential()
    candidate = Candidate(
        id=job.id,
        uuid=job.uuid,
        attempt=job.attempt,
        job_type=job.job_type,
        revision=runtime.config.revision,
        priority=job.priority,
        created_at=0,
    )
    reserved = runtime.dispatch.reserve(
        candidate,
        supervisor=NOBODY,
        credential_hash=hash_credential(credential),
        claim_window=runtime.config.claim_window,
        early=True,
    )
    if not reserved:
        return runtime.jobs.get(job.id) or job  # cancelled by who heard that it was created
    try:
        return run_here(runtime, job, credential, claim_mode="trusted").job
    except (Refused, OwnershipLost):
        return runtime.jobs.get(job.id) or job


def needs_credential(runtime: Runtime) -> bool:
    """Whether somebody will claim what is started: in `record` mode nobody ever does."""
    return runtime.config.mode != "record"


def record(runtime: Runtime, kind: RecordedKind, job: Job) -> None:
    """Remember what was asked for, in the modes for tests."""
    if runtime.is_tested:
        runtime.recorded.append(
            RecordedJob(
                kind=kind,
                job_type=job.job_type,
                payload=job.payload,
                lock_key=job.lock_key,
                title=job.title,
                owner=job.owner,
                reference=job.reference,
                actor=job.actor,
                priority=job.priority,
                not_before=job.not_before,
                job=job,
                files=[stored.file for stored in runtime.files.of(job.id, "input")],
            )
        )


def recorded(runtime: Runtime, job_type: str | None) -> list[RecordedJob]:
    """See `JobRunner.recorded`."""
    if not runtime.is_tested:
        raise ConfigError(
            'JOBRUNNER_MODE is "process", in which nothing is recorded. In tests, set '
            'app.config["JOBRUNNER_MODE"] = "record", or "inline", before init_app, or use the '
            "fixtures recorded_jobs and inline_jobs."
        )
    return [one for one in runtime.recorded if job_type in (None, one.job_type)]
