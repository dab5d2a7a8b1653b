"""Whether a job waits for supervisors that are not there, asked once a request."""

from __future__ import annotations

from flask import g

from flask_jobrunner.caller.inspect import why_untaken
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.runtime import Runtime


def untaken(runtime: Runtime, owned: OwnedJob) -> str:
    """Why no supervisor takes this job, or empty."""
    known: dict[int, str] = g.setdefault("jobrunner_untaken", {})
    if owned.job.id not in known:
        known[owned.job.id] = why_untaken(runtime, owned)
    return known[owned.job.id]
