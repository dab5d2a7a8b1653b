"""The pages one can open: the list, one job, its log."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from flask import Response, current_app, redirect, url_for
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.model.errors import InvalidPayload
from flask_jobrunner.model.records import Page
from flask_jobrunner.repositories.listing import JobFilter
from flask_jobrunner.runtime import Runtime

from . import bulk, job_list, log_panel, narrowed, polling, query, supervisor_page
from .access import viewer
from .did import what_was_done
from .empty import snippet
from .job_page import job_page, read_at
from .log_panel import LogPanel
from .narrowed import Narrowed
from .rendering import page


def index() -> Response:
    """The list, newest first."""
    who = viewer()
    who.demand("view_list")
    shown, cursor = narrowed.read(), query.cursor("cursor")
    above, newest_only = narrowed.bound(who.runtime, shown, who.scope)
    wanted = shown.job_filter(who.scope, above)
    found = find_page(who.runtime, wanted, cursor)
    counts = who.runtime.listing.counts(wanted)
    now = datetime.now(UTC)
    newest = job_list.newest_id(found, first_page=found.previous_cursor is None)
    return page(
        "list.html",
        now=now,
        rows=job_list.rows(who.runtime, found.jobs, now),
        filters=job_list.filter_links(counts, shown),
        shown=shown,
        any_elsewhere=any(counts.values()),
        newest_only=newest_only,
        types=list(who.runtime.handlers) if who.scope is None else [],
        page_size=job_list.PAGE_SIZE,
        bulk=bulk.links(who, shown, found.jobs),
        news="",
        newest_url=shown.url(),
        newer_url=_page_url(shown, found.previous_cursor),
        older_url=_page_url(shown, found.next_cursor),
        poll=polling.list_poll(who.runtime, found.jobs, shown, newest, news=""),
        snippet=snippet(who.runtime, current_app.name),
    )


def detail(uuid: UUID) -> Response | BaseResponse:
    """One job; with `line`, that line on the page that has room for it."""
    line = query.number("line", low=1)
    if line is not None:
        # The browser carries the fragment of the old address, #L5000, over to the new one.
        return redirect(url_for(".log", uuid=uuid, line=line), 303)
    who = viewer()
    owned = who.look(str(uuid))
    may_read = who.may("view_log", owned)
    log = log_panel.tail(who.runtime, owned) if may_read else LogPanel(forbidden=True)
    poll = None
    # Lines that may not be read, or were removed because they are old, are not waited for.
    cursor = log.cursor if log.lines else owned.log_seq
    if polling.goes_on(who.runtime, owned, cursor):
        poll = polling.job_poll(who.runtime, owned, cursor, quiet=0)
    return page(
        "detail.html",
        now=read_at(owned),
        job=owned.job,
        page=job_page(who, owned, log, poll, whole=True),
        did=what_was_done(who.runtime, owned),
    )


def supervisors() -> Response:
    """Who runs what waits in the queue."""
    who = viewer()
    who.demand("view_supervisors")
    shown = supervisor_page.supervisor_page(who)
    return page(
        "supervisors.html",
        now=datetime.now(UTC),
        page=shown,
        poll=polling.supervisors_poll(who.runtime, shown.tag),
    )


def find_page(runtime: Runtime, wanted: JobFilter, cursor: str | None) -> Page:
    """A page of the list; a cursor that is none of ours is a 400."""
    try:
        return runtime.listing.find(wanted, cursor=cursor, limit=job_list.PAGE_SIZE)
    except InvalidPayload:
        query.refuse("cursor", "a cursor of a page")


def _page_url(shown: Narrowed, cursor: str | None) -> str | None:
    return None if cursor is None else shown.url(cursor=cursor)
