"""The job that holds a lock key, as a link; only for those who may see that job."""

from __future__ import annotations

from dataclasses import dataclass

from flask import url_for

from flask_jobrunner.model.records import Job

from .access import Viewer
from .format import name, short


@dataclass(frozen=True, kw_only=True)
class Holder:
    """One link."""

    name: str
    short: str
    url: str


def holder_of(who: Viewer, lock_key: str | None) -> Holder | None:
    """Who holds the lock now. None also where that is not for this viewer to know."""
    owned = who.runtime.jobs.holder(lock_key) if lock_key else None
    if owned is None or not who.sees(owned.job) or not who.may("view_job", owned):
        return None
    uuid, called = owned.job.uuid, name(owned.job, who.runtime.config.redact_keys)
    return Holder(name=called, short=short(uuid), url=url_for(".detail", uuid=uuid))


def other_holder(who: Viewer, job: Job) -> Holder | None:
    """Who keeps a job that has ended from running again."""
    # What is active holds its lock itself, and so does what is lost.
    return None if job.is_active or job.status == "lost" else holder_of(who, job.lock_key)
