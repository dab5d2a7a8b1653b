"""What can be done to a job as it is now, and what of it this viewer may do."""

from __future__ import annotations

from dataclasses import dataclass

from flask import url_for

from flask_jobrunner.caller.requeue import other_revision
from flask_jobrunner.model.errors import UnknownJobType
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.model.statuses import REQUEUEABLE
from flask_jobrunner.runtime import Runtime

from .access import Viewer

FORCE_GRACE = 10.0
"""Seconds after a cancel in which nobody is offered a forced stop, where no CANCEL_GRACE is set."""


@dataclass(frozen=True, kw_only=True)
class Deed:
    """One link of a job's page; `action` is what `authorize` is asked."""

    action: str
    endpoint: str
    label: str
    css: str


CANCEL = Deed(action="cancel", endpoint="cancel", label="Cancel job", css="jr-quiet-danger")
REQUEUE = Deed(action="requeue", endpoint="requeue", label="Requeue job", css="jr-primary")
FORCE = Deed(action="force_stop", endpoint="force_stop", label="Force stop", css="jr-quiet-danger")
CLOSE = Deed(action="force_stop", endpoint="force_stop", label="Close job", css="")
AGAIN = Deed(action="start", endpoint="again", label="Run again", css="")


@dataclass(frozen=True, kw_only=True)
class Action:
    """One deed that the viewer may do now."""

    label: str
    url: str
    css: str


def possible(runtime: Runtime, owned: OwnedJob) -> list[Deed]:
    """What could be done to a job of this status."""
    status, found = owned.job.status, list[Deed]()
    if status in ("queued", "running"):
        found.append(CANCEL)
    if may_be_forced(runtime, owned):
        found.append(CLOSE if status == "lost" else FORCE)
    if status in REQUEUEABLE or status == "lost" or other_revision(runtime, owned):
        found.append(REQUEUE)
    if is_repeatable(runtime, owned):
        found.append(AGAIN)
    return found


def allowed(viewer: Viewer, owned: OwnedJob) -> list[Action]:
    """The possible deeds that this viewer may do."""
    return [
        Action(
            label=deed.label, url=url_for(f".{deed.endpoint}", uuid=owned.job.uuid), css=deed.css
        )
        for deed in possible(viewer.runtime, owned)
        if viewer.may(deed.action, None if deed.action == "start" else owned)
    ]


def may_be_forced(runtime: Runtime, owned: OwnedJob) -> bool:
    """Whether a forced stop is offered: the app wants it, and asking has had its time."""
    if not runtime.config.force_stop:
        return False
    if owned.job.status == "lost":
        return True
    asked_at = owned.cancel_requested_at
    if owned.job.status != "cancel_requested" or asked_at is None or owned.is_inline:
        return False
    if owned.job.stop_reason == "force":
        return False
    return owned.now - asked_at >= (cancel_grace(runtime, owned) or FORCE_GRACE) * 1_000_000


def is_repeatable(runtime: Runtime, owned: OwnedJob) -> bool:
    """Whether people may start another job of this type with this one's payload."""
    if not owned.job.is_terminal or owned.job.status == "lost":
        return False
    try:
        return runtime.handlers.find(owned.job.job_type).manual
    except UnknownJobType:
        return False


def cancel_grace(runtime: Runtime, owned: OwnedJob) -> float | None:
    """Seconds from a cancel to the end of the process; None: it is asked, and nothing more."""
    try:
        handler = runtime.handlers.find(owned.job.job_type)
    except UnknownJobType:
        return runtime.config.cancel_grace
    return runtime.budget(handler, "cancel_grace")
