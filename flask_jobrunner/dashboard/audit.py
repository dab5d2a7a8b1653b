"""Every deed of the dashboard is told: to the application's log, and by a signal.

The third place, the history in the database, is written with the deed itself.
"""

from __future__ import annotations

import logging

from flask_jobrunner.model.records import Job
from flask_jobrunner.signals import action_taken, send

from . import counts
from .access import Viewer
from .format import visible

log = logging.getLogger("flask_jobrunner.audit")


def done(
    who: Viewer, action: str, *, job: Job | None = None, supervisor: str | None = None
) -> None:
    """Tell who did what to which job, or to which supervisor."""
    counts.forget(who.runtime)
    actor = who.actor()
    about = f"job {job.uuid}" if job is not None else f"supervisor {supervisor}"
    log.info("%s by %s: %s", action, _one_line(actor or "nobody in particular"), about)
    send(action_taken, who.runtime.app, action=action, actor=actor, job=job, supervisor=supervisor)


def _one_line(text: str) -> str:
    """Nobody forges a line: an actor is whatever the host, or its sign-up form, let through."""
    return visible(text).translate({9: " ", 10: "\u240a"})
