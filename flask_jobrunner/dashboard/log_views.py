"""Everything that answers with lines and is no job's page: window, earlier lines, downloads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import UUID

from flask import Response, redirect, request, stream_with_context, url_for
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.protocol.redact import mask_value
from flask_jobrunner.runtime import Runtime

from . import log_panel, log_query, log_window, query
from .access import viewer
from .format import thousands
from .job_page import read_at
from .log_query import LogQuery
from .log_window import LogWindow, Place
from .rendering import fragment, page

COPIED_LINES = 500
COPIED_BYTES = 1 << 20
"""About what is in memory of a download at a time: a line may have 16 kB."""
_AT_FIRST = 50


def window(uuid: UUID) -> Response | BaseResponse:
    """A part of the log, for reading, searching, linking and paging without a script."""
    runtime, owned = _readable(uuid)
    asked = log_query.read(owned)
    place = Place(
        line=query.number("line", low=1),
        before=query.number("before", low=1),
        after=query.number("after"),
    )
    direction = query.choice("find", log_query.DIRECTIONS)
    told, on_url = "", None
    if direction and (asked.text or direction == "error"):
        start = min(query.number("from") or 0, owned.log_seq + 1)
        found = log_window.find(runtime, owned, asked, direction, start)
        if found.lines:
            seen = LogQuery(uuid=owned.job.uuid) if direction == "error" else asked
            return redirect(seen.line_url(found.lines[0].seq), 303)
        told = _nothing_found(direction, start, found.left)
        if found.left is not None:
            on = found.left[1] + 1 if direction == "previous" else found.left[0]
            on_url = asked.url(**{"find": direction, "from": on})
        place = Place(line=start or 1)
    return _page(owned, asked, log_window.window(runtime, owned, asked, place), told, on_url)


def earlier(uuid: UUID) -> Response | BaseResponse:
    """The lines before those that a job's page shows."""
    if "HX-Request" not in request.headers:
        return redirect(url_for(".log", uuid=uuid), 303)
    runtime, owned = _readable(uuid)
    before = query.number("before", low=1) or 1
    return fragment(
        "_earlier.html", lines=log_panel.lines_before(runtime, owned, before), now=read_at(owned)
    )


def as_text(uuid: UUID) -> Response:
    """Every line as it is stored, and nothing else."""
    runtime, owned = _readable(uuid)

    def pieces() -> Iterator[bytes]:
        seq, at_once = 0, _AT_FIRST
        while lines := runtime.logs.texts(owned.job.id, seq, owned.log_seq, at_once):
            seq = lines[-1][0]
            piece = "".join(f"{text}\n" for _, text in lines).encode("utf-8", "replace")
            at_once = _fitting_lines(len(lines), len(piece))
            yield piece

    return _download(owned, pieces(), "txt", "text/plain")


def as_ndjson(uuid: UUID) -> Response:
    """Every line with number, time, level, stream and context, as one JSON object each.

    With `after_seq`, the lines after that one.
    """
    runtime, owned = _readable(uuid)
    keys, start = runtime.config.redact_keys, query.number("after_seq") or 0

    def pieces() -> Iterator[bytes]:
        seq, at_once = start, _AT_FIRST
        while lines := runtime.logs.after(owned.job.id, seq, at_once):
            seq, kept = lines[-1].seq, [line for line in lines if line.seq <= owned.log_seq]
            records = (json.dumps(mask_value(line.to_dict(), keys)) for line in kept)
            piece = "".join(f"{record}\n" for record in records).encode()
            at_once = _fitting_lines(len(kept), len(piece))
            yield piece
            if len(kept) < len(lines):
                return

    return _download(owned, pieces(), "ndjson", "application/x-ndjson")


def _fitting_lines(lines: int, size: int) -> int:
    """How many lines fit into memory, when so many had this size."""
    return max(1, min(COPIED_LINES, COPIED_BYTES * lines // max(1, size)))


def _readable(uuid: UUID) -> tuple[Runtime, OwnedJob]:
    who = viewer()
    owned = who.find(str(uuid))
    who.demand("view_log", owned)
    return who.runtime, owned


def _download(owned: OwnedJob, pieces: Iterator[bytes], ending: str, mimetype: str) -> Response:
    # Up to the line that was the last one when it was asked for: a log that grows has an end too.
    response = Response(stream_with_context(pieces), mimetype=mimetype)
    response.headers["Content-Disposition"] = f'attachment; filename="{owned.job.uuid}.{ending}"'
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


def _page(
    owned: OwnedJob, asked: LogQuery, log: LogWindow, told: str, search_on_url: str | None
) -> Response:
    return page(
        "log.html",
        now=read_at(owned),
        job=owned.job,
        log=log,
        asked=asked,
        told=told or log.searched,
        search_on_url=search_on_url,
        size=log_panel.size_text(owned),
        levels=log_query.levels(),
        streams=log_query.streams(),
        attempts=log_query.attempts(owned),
    )


def _nothing_found(direction: str, start: int, left: tuple[int, int] | None) -> str:
    if left is not None:
        seen = (left[1] + 1, start - 1) if direction == "previous" else (start + 1, left[0])
        what = "error" if direction == "error" else "match"
        lines = f"{thousands(seen[0])} to {thousands(seen[1])}"
        return f"No {what} in lines {lines}. {log_window.not_looked_through(left)}"
    if direction == "error":
        return "No line of this log is an error."
    where = "before" if direction == "previous" else "after"
    return f"No match {where} line {thousands(start)}." if start else "No line matches."
