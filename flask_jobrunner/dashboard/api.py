"""What programs get: the jobs as JSON, behind the same questions to the application.

An answer holds no clock of its own, so that its ETag changes with what it tells and with nothing
else. Links are paths on this site, below the mount.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from flask import Response, request, url_for

from flask_jobrunner.repositories.listing import PAGE_MAX

from . import api_values, job_list, narrowed, polling, query, types_page
from .access import Viewer, viewer

LINES = 200
"""Lines that one answer brings; a whole log is a download."""
POLICY = "default-src 'none'; frame-ancestors 'none'"


def index() -> Response:
    """A page of the list, newest first, with the filters of the page for people."""
    who = viewer()
    who.demand("view_list")
    shown, after = narrowed.read(), query.number("after")
    limit = query.number("limit", low=1, high=PAGE_MAX)
    above, newest_only = narrowed.bound(who.runtime, shown, who.scope)
    wanted = shown.job_filter(who.scope, above)
    found = who.runtime.listing.find(
        wanted,
        cursor=None if after is None else str(after),
        limit=limit or job_list.PAGE_SIZE,
    )
    counts = who.runtime.listing.counts(wanted)
    older = None
    if found.next_cursor is not None:
        older = url_for(".index_json", **shown.parameters(), after=found.next_cursor, limit=limit)
    return _answer(
        {
            "jobs": [api_values.summary(who.runtime, job) for job in found.jobs],
            "counts": counts,
            "looked_at": newest_only or None,
            "next": older,
        }
    )


def job(uuid: UUID) -> Response:
    """One job; with `after_seq`, the lines of its log after that one."""
    who = viewer()
    owned = who.look(str(uuid))
    after = query.number("after_seq")
    told: dict[str, Any] = {"job": api_values.whole(who.runtime, owned.job)}
    if who.may("view_payload", owned):
        told |= api_values.values(who.runtime, owned)
    cursor, lines = owned.log_seq, list[dict[str, Any]]()
    if who.may("view_log", owned):
        cursor, lines = _lines(who, owned.job.id, owned.log_seq, after)
        told["log"] = {"last_seq": owned.log_seq, "lines": lines}
    told["files"] = api_values.files(who, owned)
    goes_on = polling.goes_on(who.runtime, owned, cursor)
    told["next"] = url_for(".job_json", uuid=uuid, after_seq=cursor) if goes_on else None
    told["next_in"] = None
    if goes_on:
        quiet = 0.0 if lines else 10.0
        wait = polling.job_seconds(owned.job, owned.now / 1_000_000, quiet)
        told["next_in"] = 0.0 if cursor < owned.log_seq else max(wait, who.runtime.config.poll_min)
    return _answer(told)


def supervisors() -> Response:
    """Who runs what waits in the queue, and what waits."""
    who = viewer()
    who.demand("view_supervisors")
    return _answer(api_values.supervisors(who))


def types() -> Response:
    """How the job types run and fail."""
    who = viewer()
    who.demand("view_list")
    found = sorted(types_page.runs_of_types(who).items())
    return _answer(
        {
            "types": [api_values.job_type(who.runtime, name, runs) for name, runs in found],
            "looked_at": types_page.NEWEST,
        }
    )


def _lines(
    who: Viewer, job_id: int, last: int, after: int | None
) -> tuple[int, list[dict[str, Any]]]:
    """(the cursor to go on with, lines). Lines that were removed as old are not waited for."""
    if after is None or after >= last:
        return last, []
    found = [line for line in who.runtime.logs.after(job_id, after, LINES) if line.seq <= last]
    cursor = found[-1].seq if len(found) == LINES else last
    return cursor, [api_values.masked(who.runtime, line.to_dict()) for line in found]


def _answer(told: dict[str, Any]) -> Response:
    response = Response(json.dumps(told) + "\n", mimetype="application/json")
    response.headers["Content-Security-Policy"] = POLICY
    # Weak: what the application does to answers on their way, such as packing them, is its own.
    response.add_etag(weak=True)
    response.make_conditional(request)
    return response
