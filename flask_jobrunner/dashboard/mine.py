"""The jobs of whoever looks, inside a page of the application's own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Response, redirect, request, url_for
from markupsafe import Markup
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.model.records import Job
from flask_jobrunner.repositories.listing import JobFilter

from . import polling, query
from .access import Viewer, viewer
from .mount import endpoint
from .polling import Poll
from .progress import ProgressView, progress_values, progress_view
from .rendering import fragment, is_widget, nothing_new, piece

MOST = 50
"""Jobs that one list may show."""
CALM_SECONDS = 30.0
"""Between two looks while none of the jobs is at work."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One job of the list."""

    job: Job
    url: str
    progress: ProgressView | None


@dataclass(frozen=True, kw_only=True)
class Mine:
    """The list; `tag` changes with what is shown."""

    items: list[Item]
    poll: Poll
    tag: str


def my_jobs(limit: int = 10) -> Markup:
    """The newest jobs whose owner is who looks, live."""
    now = datetime.now(UTC)
    return piece("_mine.html", now=now, mine=_mine(viewer(), limit, now))


def mine_fragment() -> Response | BaseResponse:
    """The same list, if anything in it has changed."""
    if not (is_widget() or "HX-Request" in request.headers):
        return redirect(url_for(endpoint("index")), 303)
    now, limit, who = datetime.now(UTC), query.number("n", low=1, high=MOST), viewer()
    who.send_away()
    shown = _mine(who, limit or 10, now)
    if shown.tag == query.tag("v"):
        return nothing_new()
    return fragment("_mine.html", now=now, mine=shown)


def _mine(who: Viewer, limit: int, now: datetime) -> Mine:
    limit = max(1, min(limit, MOST))
    jobs = _owned_by(who, limit)
    items = [
        Item(
            job=job,
            url=url_for(endpoint("detail"), uuid=job.uuid),
            progress=progress_view(job, now) if job.is_active else None,
        )
        for job in jobs
    ]
    told = [(job.uuid, job.title, job.status, job.attempt, *progress_values(job)) for job in jobs]
    tag = hashlib.sha256(repr(told).encode()).hexdigest()[:12]
    calm = not any(job.is_active for job in jobs)
    seconds = polling.shown(
        CALM_SECONDS if calm else polling.LIST_SECONDS, who.runtime.config.poll_min
    )
    poll = Poll(url=url_for(endpoint("mine"), n=limit, v=tag), seconds=seconds)
    return Mine(items=items, poll=poll, tag=tag)


def _owned_by(who: Viewer, limit: int) -> list[Job]:
    # Nobody in particular owns nothing: without a name every job would be listed.
    name = who.scope if who.scope is not None else who.actor()
    if not name:
        return []
    found = who.runtime.listing.find(JobFilter(owner=name), limit=limit)
    # A database may take two names for one that differ in case or by a trailing space.
    return [job for job in found.jobs if job.owner == name and who.shows(job)]
