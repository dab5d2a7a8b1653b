"""One job inside a page of the application's own: what it shows, and what its polls get.

The macro and the route ask the same `Viewer` as the dashboard does. A job that may not be seen
and one that is not there are the same sentence, and the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from flask import Response, redirect, request, url_for
from markupsafe import Markup
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.caller.inspect import check_ref
from flask_jobrunner.model.records import Job, LogLine, OwnedJob
from flask_jobrunner.protocol.encoding import decode_json

from . import notices, polling, query
from .access import Viewer, viewer
from .file_list import FileView, made_views
from .format import Value, json_value, visible
from .job_page import read_at, sentence
from .line_view import LineStyle, LineView, line_view
from .log_panel import nothing_text
from .mount import endpoint
from .polling import Poll
from .progress import ProgressView, progress_tag, progress_view
from .rendering import fragment, is_widget, nothing_new, piece
from .usual import usual_seconds, usually_takes

TAIL = 100
"""Lines that a widget shows at most; the job's page has them all."""
NEVER = 2**40
"""Seconds since 1970 that lie behind every clock."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the page that shows the widget wants of it; its polls carry it on."""

    log: bool = True
    result: bool = True
    files: bool = True


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a page that polls shows already."""

    cursor: int
    version: int | None
    tag: str
    seconds: str | None
    news_at: int


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The end of a log; `cursor` is the last line that was shown."""

    lines: list[LineView]
    cursor: int
    shown: bool
    nothing: str = ""
    kept: int = TAIL


@dataclass(frozen=True, kw_only=True)
class Widget:
    """Everything that the template reads."""

    sentence: Markup | str
    progress: ProgressView | None
    log: Tail
    result: Value | None
    files: list[FileView]
    error: str
    cancel_url: str
    url: str
    poll: Poll | None
    usual: str = ""
    """How long a job of this type usually takes, while this one is under way."""


def head(nonce: str | None = None) -> Markup:
    """Style sheets and script for a page's `<head>`."""
    return piece("_embed_head.html", given=nonce)


def job_widget(
    job: Job | int | str,
    *,
    log: bool = True,
    result: bool = True,
    files: bool = True,
    done: str = "",
) -> Markup:
    """One job, live. `done` is markup of the page's own that is shown once the job succeeded."""
    who, options = viewer(), Options(log=log, result=result, files=files)
    ref = job.uuid if isinstance(job, Job) else job
    try:
        owned = who.look(check_ref(ref))
    except HTTPException:
        # Not the page's end: it is the application's, and has more to say than this job.
        return piece("_embed_absent.html")
    here = request.script_root + request.full_path.rstrip("?")
    shown = _with_more(who, owned, options, _widget(who, owned, options, here=here))
    own = Markup(done)  # noqa: S704 - the page's own markup, as its author wrote it
    return piece("_embed.html", now=read_at(owned), job=owned.job, widget=shown, done=own)


def job_fragment(uuid: UUID) -> Response | BaseResponse:
    """The widget, for a page that fetches it; with `c`, what is new since that line."""
    if not (is_widget() or "HX-Request" in request.headers):
        return redirect(url_for(endpoint("detail"), uuid=uuid), 303)
    who = viewer()
    owned = who.look(str(uuid))
    options = Options(
        log=query.number("log") != 0,
        result=query.number("result") != 0,
        files=query.number("files") != 0,
    )
    seen = _seen()
    shown = _widget(who, owned, options, seen=seen)
    if (
        seen is not None
        and shown.poll is not None
        and _is_known(owned, shown.log, shown.poll, seen)
    ):
        return nothing_new()
    shown = _with_more(who, owned, options, shown)
    return fragment("_embed.html", now=read_at(owned), job=owned.job, widget=shown, done="")


def _seen() -> Seen | None:
    cursor = query.number("c")
    seen = Seen(
        cursor=cursor or 0,
        version=query.number("v"),
        tag=query.tag("p"),
        seconds=request.args.get("i"),
        news_at=query.number("q", high=NEVER) or 0,
    )
    return None if cursor is None else seen


def _is_known(owned: OwnedJob, log: Tail, poll: Poll, seen: Seen) -> bool:
    """Whether the page that asks shows all this, and asks as often as it should."""
    same = seen.version == owned.row_version and seen.tag == progress_tag(owned.job)
    return same and not log.lines and seen.seconds == poll.seconds


def _widget(
    who: Viewer,
    owned: OwnedJob,
    options: Options,
    *,
    seen: Seen | None = None,
    here: str | None = None,
) -> Widget:
    runtime, job, now = who.runtime, owned.job, read_at(owned)
    log = _tail(who, owned, None if seen is None else seen.cursor, wanted=options.log)
    poll = None
    if polling.goes_on(runtime, owned, log.cursor):
        news = seen is None or log.lines or seen.version != owned.row_version
        quiet_since = now.timestamp() if news or seen is None else seen.news_at
        poll = _poll(who, owned, options, log.cursor, min(quiet_since, now.timestamp()))
    may_cancel = job.status in ("queued", "running") and who.may("cancel", owned)
    return Widget(
        sentence=sentence(job, now, None),
        progress=progress_view(job, now),
        log=log,
        result=_result(who, owned) if options.result else None,
        files=[],
        error=visible(notices.first_line(job)) if job.is_terminal else "",
        cancel_url=url_for(endpoint("cancel"), uuid=job.uuid, next=here) if may_cancel else "",
        url=url_for(endpoint("detail"), uuid=job.uuid),
        poll=poll,
    )


def _with_more(who: Viewer, owned: OwnedJob, options: Options, widget: Widget) -> Widget:
    # Not before it is known that there is news: a poll without any asks the database once.
    files, usual = widget.files, widget.usual
    if options.files:
        files = made_views(who, owned)
    if owned.job.is_active:
        usual = usually_takes(usual_seconds(who.runtime, owned.job, who.scope))
    return replace(widget, files=files, usual=usual)


def _tail(who: Viewer, owned: OwnedJob, cursor: int | None, *, wanted: bool) -> Tail:
    """The newest lines, or those after `cursor`: where these are more, older ones are left out."""
    if not (wanted and who.may("view_log", owned)):
        return Tail(lines=[], cursor=owned.log_seq, shown=False)
    logs = who.runtime.logs
    found: list[LogLine] = []
    if cursor is None or owned.log_seq - cursor > TAIL:
        found = logs.newest(owned.job.id, TAIL)
    elif owned.log_seq > cursor:
        found = logs.after(owned.job.id, cursor, TAIL)
    # Lines that were removed because they are old are not waited for.
    last = max(found[-1].seq if found else 0, owned.log_seq, cursor or 0)
    # Not the viewer's own zone: the cookie that says it is not sent to the application's pages.
    style = replace(LineStyle.of(who.runtime, owned), zone=who.runtime.config.timezone)
    return Tail(
        lines=[line_view(line, style) for line in found],
        cursor=last,
        shown=True,
        nothing=nothing_text(owned),
    )


def _poll(who: Viewer, owned: OwnedJob, options: Options, cursor: int, quiet_since: float) -> Poll:
    now = owned.now / 1_000_000
    seconds = polling.shown(
        polling.job_seconds(owned.job, now, now - quiet_since), who.runtime.config.poll_min
    )
    url = url_for(
        endpoint("embed"),
        uuid=owned.job.uuid,
        c=cursor,
        v=owned.row_version,
        p=progress_tag(owned.job),
        i=seconds,
        q=int(quiet_since),
        log=None if options.log else 0,
        result=None if options.result else 0,
        files=None if options.files else 0,
    )
    return Poll(url=url, seconds=seconds)


def _result(who: Viewer, owned: OwnedJob) -> Value | None:
    if owned.result_json is None or not who.may("view_payload", owned):
        return None
    return json_value("", decode_json(owned.result_json), who.runtime.config.redact_keys)
