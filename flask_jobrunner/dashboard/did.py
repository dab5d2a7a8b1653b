"""What the viewer has just done, told from what was recorded, not from the address."""

from __future__ import annotations

from dataclasses import dataclass

from flask import request
from markupsafe import Markup, escape

from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.runtime import Runtime

from . import preferences
from .format import visible, when

_TEXTS = {
    ("cancel", "cancelled"): "Job cancelled",
    ("cancel", "cancel_requested"): "Cancel requested",
    ("requeue", "queued"): "Job requeued",
    ("force_stop", "cancel_requested"): "Forced to stop",
    ("close", "cancelled"): "Job closed",
}


@dataclass(frozen=True, kw_only=True)
class Done:
    """One deed: what, who, when."""

    tone: str
    text: Markup
    told: bool = False
    """Whether a notice says the same for as long as it is true."""


def what_was_done(runtime: Runtime, owned: OwnedJob) -> Done | None:
    """The deed that the address names, if the job's events have it."""
    action = request.args.get("did")
    if action not in ("cancel", "requeue", "force_stop"):
        return None
    meant = ("force_stop", "close") if action == "force_stop" else (action,)
    events = [event for event in runtime.events.of(owned.job.id) if event.action in meant]
    if not events:
        return None
    event = events[-1]
    what = _TEXTS.get((event.action, event.to_status or ""), "Done")
    by = f" by {visible(event.actor)}" if event.actor else ""
    text = escape(f"{what}{by}, ") + when(event.at, preferences.zone(runtime))
    told = owned.job.status == event.to_status == "cancel_requested"
    return Done(tone="succeeded", text=text, told=told)
