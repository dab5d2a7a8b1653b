"""What polls get: the pieces that changed, or 204."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.model.records import OwnedJob

from . import frame, job_list, log_panel, narrowed, polling, query, supervisor_page
from .access import Viewer, viewer
from .job_page import job_page, read_at
from .log_panel import LogPanel
from .rendering import OOB, fragment, nothing_new
from .system_lines import Told


def list_live() -> Response | BaseResponse:
    """Cells of the rows that were active, and how many jobs are new."""
    shown = narrowed.read()
    if "HX-Request" not in request.headers:
        return redirect(shown.url(), 303)
    who = viewer()
    who.demand("view_list")
    active = query.uuids("a", most=job_list.PAGE_SIZE)
    newest, seen = query.number("n"), query.tag("v")
    found = who.runtime.jobs.get_many(active) if active else {}
    jobs = [job for uuid in active if (job := found.get(uuid)) and who.sees(job)]
    news = job_list.news(who.runtime, shown.job_filter(who.scope), newest)
    if job_list.tag(jobs, news) == seen:
        return nothing_new()
    now = datetime.now(UTC)
    return fragment(
        "_list_live.html",
        now=now,
        oob=OOB,
        rows=job_list.rows(who.runtime, jobs, now),
        news=news,
        newest_url=shown.url(),
        poll=polling.list_poll(who.runtime, jobs, shown, newest, news=news),
    )


def job_live(uuid: UUID) -> Response | BaseResponse:
    """New log lines and changed pieces of one job. The last answer has no trigger."""
    if "HX-Request" not in request.headers:
        return redirect(url_for(".detail", uuid=uuid), 303)
    who = viewer()
    owned = who.look(str(uuid))
    log = _log(who, owned, query.number("c") or 0)
    progress = query.tag("p") != polling.page_tag(who.runtime, owned)
    state = query.number("v") != owned.row_version
    # What may be done about a job that does not stop changes with time alone.
    state = state or (progress and owned.job.status == "cancel_requested")
    news = bool(log.lines) or progress or state
    now = owned.now / 1_000_000
    quiet = 0.0 if news else now - (query.number("q", high=int(now)) or 0)
    poll = polling.job_poll(who.runtime, owned, log.cursor, log.told, quiet=quiet)
    more = polling.goes_on(who.runtime, owned, log.cursor)
    if more and not news and request.args.get("i") == poll.seconds:
        return nothing_new()
    # The end is shown whole: whatever a lost answer may have left out is there.
    state = state or not more
    return fragment(
        "_live.html",
        now=read_at(owned),
        oob=OOB,
        job=owned.job,
        page=job_page(who, owned, log, poll if more else None, whole=state),
        progress_changed=progress or state,
        state_changed=state,
    )


def supervisors_live() -> Response | BaseResponse:
    """The supervisors, if anything about them has changed."""
    if "HX-Request" not in request.headers:
        return redirect(url_for(".supervisors"), 303)
    who = viewer()
    who.demand("view_supervisors")
    now = datetime.now(UTC)
    shown = supervisor_page.supervisor_page(who, now)
    if shown.tag == query.tag("v"):
        return nothing_new()
    return fragment(
        "_supervisors_live.html",
        now=now,
        oob=OOB,
        page=shown,
        links=frame.frame(who.runtime, who).links,
        poll=polling.supervisors_poll(who.runtime, shown.tag),
    )


def _log(who: Viewer, owned: OwnedJob, cursor: int) -> LogPanel:
    if not who.may("view_log", owned):
        return LogPanel(forbidden=True, cursor=owned.log_seq)
    told = Told(event=query.number("e") or 0, version=query.number("w") or 0)
    return log_panel.following(who.runtime, owned, cursor, told)
