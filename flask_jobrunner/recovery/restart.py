"""What waits in vain: interrupted jobs that may run again, and jobs of a revision that is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.records import Job, OwnedJob
from flask_jobrunner.model.statuses import Reason
from flask_jobrunner.model.words import REASON_WORDS
from flask_jobrunner.runtime import Runtime

from .settle import holder_settled, tell_finished

log = logging.getLogger("flask_jobrunner")
RESTART_WITHIN = 86400.0
"""Seconds after its end for which an interrupted job may still run again by itself: an option that
is set later does not bring back what was given up long ago."""


def _each(acts: Iterable[tuple[str, Callable[[], bool]]]) -> list[str]:
    """The uuids for which something was done: a job that cannot be dealt with hides no other."""
    done = list[str]()
    for uuid, act in acts:
        try:
            if act():
                done.append(uuid)
        except DatabaseAway:
            raise
        except Exception:
            log.exception("The sweep could not deal with job %s", uuid)
    return done


def restart_interrupted(runtime: Runtime) -> list[str]:
    """Put interrupted jobs back into the queue whose handlers allow it; their uuids."""
    found, held = list[str](), set[str]()
    for job_type in runtime.handlers:
        times, after = runtime.handlers.find(job_type).restart_interrupted, 0
        while times and (
            page := runtime.listing.restartable(job_type, times, RESTART_WITHIN, after)
        ):
            found += _each((job.uuid, partial(_restart, runtime, job, times, held)) for job in page)
            after = page[-1].id
    return found


def _restart(runtime: Runtime, job: Job, times: int, held: set[str]) -> bool:
    """`held` are the lock keys that were found held in this pass: many jobs may wait for one."""
    if job.lock_key in held:
        return False
    config = runtime.config
    moved = runtime.jobs.requeue(
        job,
        claim_mode="trusted",
        credential_hash=None,
        claim_window=None,
        queue_budget=runtime.budget(runtime.handlers.find(job.job_type), "queue_budget"),
        revision=config.revision,
        config_digest=config.digest,
        actor=None,
        restarts_below=times,
    )
    if moved is None:
        # Its key is held. A holder that is over is settled, and the next sweep tries again.
        holder_settled(runtime, job.lock_key or "")
        held.add(job.lock_key or "")
    return bool(moved)


def fail_stranded(runtime: Runtime) -> list[str]:
    """Fail what has waited for REVISION_GRACE for a revision that no supervisor runs; uuids."""
    grace = runtime.config.revision_grace
    if grace is None:
        return []
    run = {one.revision for one in runtime.supervisors.alive(runtime.supervisor_silence)}
    run.add(runtime.config.revision)
    waiting = runtime.listing.stranded([one for one in run if one is not None], grace)
    return _each((seen.job.uuid, partial(_fail, runtime, seen)) for seen in waiting)


def _fail(runtime: Runtime, seen: OwnedJob) -> bool:
    text = f"{REASON_WORDS[Reason.REVISION_MISMATCH]} It was made for {seen.revision}."
    failed = runtime.jobs.fail_queued(
        seen.job.id, seen.job.attempt, Reason.REVISION_MISMATCH, message=text
    )
    if failed:
        tell_finished(runtime, seen.job.uuid)
    return failed
