"""The same deed on every job that a filter finds: a GET counts and asks, a POST acts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flask import Response, request, url_for

from flask_jobrunner.caller import cancel as cancelling
from flask_jobrunner.caller import requeue as requeueing
from flask_jobrunner.model.errors import ConfigError, DatabaseAway, LockBusy, UnknownJobType
from flask_jobrunner.model.records import Job, OwnedJob
from flask_jobrunner.model.statuses import REQUEUEABLE
from flask_jobrunner.repositories.listing import PAGE_MAX

from . import audit, narrowed, query
from .access import Viewer, viewer
from .format import thousands
from .narrowed import Narrowed
from .problems import Problem
from .question import Question, ask
from .rendering import page

AT_ONCE = 1000
LOOKED_AT = 10 * AT_ONCE
"""Jobs that are looked at for those which this viewer may act on."""
SECONDS = 20.0
"""For which one request acts; a server's own limit must not cut it off."""
PUSHED_AT_ONCE = 10
"""Of jobs made by `start`, each runs in a process of its own at once."""


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """One deed on many: its action, the statuses that it suits, its words, and how it is done."""

    action: str
    statuses: frozenset[str]
    effect: str
    verb: str
    did: str
    no: str
    css: str
    act: Callable[[Viewer, Job], bool]


@dataclass
class Tally:
    """What became of the jobs."""

    done: int = 0
    moved: int = 0
    left: int = 0
    why: str = ""


def cancel() -> Response:
    """Cancel all that wait or run."""
    return _bulk(CANCEL)


def requeue() -> Response:
    """Run all that ended without success again."""
    return _bulk(REQUEUE)


def links(who: Viewer, shown: Narrowed, jobs: Sequence[Job]) -> list[tuple[str, str]]:
    """(label, url) on a list that is narrowed, where one of the jobs shown could be meant."""
    if not shown:
        return []
    only = shown.status[0] if len(shown.status) == 1 and not shown.is_searched else ""
    what = f"all {only.replace('_', ' ')} jobs" if only else "all of these"
    return [
        (f"{bulk.verb} {what}", url_for(f".bulk_{bulk.action}", **shown.parameters()))
        for bulk in (CANCEL, REQUEUE)
        if any(job.status in bulk.statuses and who.may_with(bulk.action, job) for job in jobs)
    ]


def _bulk(bulk: Bulk) -> Response:
    who = viewer()
    who.demand("view_list")
    shown = narrowed.read()
    until = query.form_number("until") if request.method == "POST" else None
    found, more = _matching(who, bulk, shown, until)
    back = shown.url()
    if not found:
        return _told("No job matches", ["There is nothing that you could do this to."], back, 409)
    if request.method == "POST":
        tally = _act(who, bulk, found, _statuses(bulk, shown))
        return _told(f"{bulk.did} {_jobs(tally.done)}", _texts(bulk, tally, more=more), back)
    return ask(_question(bulk, found, more=more), back=back)


def _matching(
    who: Viewer, bulk: Bulk, shown: Narrowed, until: int | None
) -> tuple[list[Job], bool]:
    """The jobs that are meant, newest first, and whether there are more; none after `until`."""
    statuses = _statuses(bulk, shown)
    above, newest_only = narrowed.bound(who.runtime, shown, who.scope)
    wanted = replace(shown, status=sorted(statuses)).job_filter(who.scope, above)
    found, looked_at = list[Job](), 0
    cursor = None if until is None else str(until + 1)
    while statuses:
        part = who.runtime.listing.find(wanted, cursor=cursor, limit=PAGE_MAX)
        found += [job for job in part.jobs if _may(who, bulk, job)]
        looked_at, cursor = looked_at + len(part.jobs), part.next_cursor
        if cursor is None:
            break
        if len(found) >= AT_ONCE or looked_at >= LOOKED_AT:
            return found[:AT_ONCE], True
    return found[:AT_ONCE], len(found) > AT_ONCE or bool(newest_only)


def _statuses(bulk: Bulk, shown: Narrowed) -> frozenset[str]:
    return bulk.statuses.intersection(shown.status or bulk.statuses)


def _may(who: Viewer, bulk: Bulk, job: Job) -> bool:
    return who.may_with("view_job", job) and who.may_with(bulk.action, job)


def _question(bulk: Bulk, found: list[Job], *, more: bool) -> Question:
    effects = [bulk.effect]
    if more:
        effects.append(
            f"More jobs match than these {_jobs(len(found))}, the newest; do it again for the rest."
        )
    return Question(
        title=f"{bulk.verb} {_jobs(len(found))}?",
        effects=effects,
        yes=f"{bulk.verb} {_jobs(len(found))}",
        no=bulk.no,
        css=bulk.css,
        fields=[("until", str(max(job.id for job in found)))],
    )


def _act(who: Viewer, bulk: Bulk, found: list[Job], statuses: frozenset[str]) -> Tally:
    tally, until, pushed = Tally(), time.monotonic() + SECONDS, 0
    for number, job in enumerate(found):
        if time.monotonic() > until:
            tally.left += len(found) - number
            tally.why = "This took too long for one request."
            break
        try:
            owned = _still_meant(who, job, statuses)
            if bulk is REQUEUE and owned is not None and owned.claim_mode == "token":
                pushed += 1
                if pushed > PUSHED_AT_ONCE:
                    tally.left += 1
                    tally.why = (
                        f"Jobs made by jobs.start begin at once, each in a process of its own: "
                        f"{PUSHED_AT_ONCE} at a time."
                    )
                    continue
            done = owned is not None and bulk.act(who, job)
        except (DatabaseAway, LockBusy):
            tally.left += len(found) - number
            tally.why = "The database did not answer any more."
            break
        if done:
            audit.done(who, bulk.action, job=job)
        tally.done, tally.moved = tally.done + done, tally.moved + (not done)
    return tally


def _still_meant(who: Viewer, job: Job, statuses: frozenset[str]) -> OwnedJob | None:
    """The job as it is now: of many, the last ones may have begun since all of them waited."""
    owned = who.runtime.jobs.owned(job.id)
    return owned if owned is not None and owned.job.status in statuses else None


def _cancel(who: Viewer, job: Job) -> bool:
    return cancelling.cancel(who.runtime, job.uuid, actor=who.actor()).ok


def _requeue(who: Viewer, job: Job) -> bool:
    try:
        return requeueing.requeue(who.runtime, job.uuid, actor=who.actor(), wait=False).ok
    except (UnknownJobType, ConfigError):
        return False


def _texts(bulk: Bulk, tally: Tally, *, more: bool) -> list[str]:
    texts = list[str]()
    if tally.moved:
        what = "was" if tally.moved == 1 else "were"
        texts.append(
            f"{_jobs(tally.moved)} could not be meant any more, or {what} refused: it began or "
            "ended meanwhile, its lock is taken, or its type is not registered here."
        )
    if tally.left:
        what = "was" if tally.left == 1 else "were"
        texts.append(
            f"{_jobs(tally.left)} {what} left alone. {tally.why} Do it again for the rest."
        )
    if more:
        texts.append("More jobs match; do it again for the rest.")
    return texts or [bulk.effect]


def _told(title: str, texts: list[str], url: str, status: int = 200) -> Response:
    return page("error.html", status, problem=Problem(title=title, texts=texts, url=url))


def _jobs(number: int) -> str:
    return f"{thousands(number)} job{'' if number == 1 else 's'}"


CANCEL = Bulk(
    action="cancel",
    statuses=frozenset({"queued", "running"}),
    effect="Those that wait end at once; those that run are asked to stop at their next "
    "checkpoint. Work already done is kept.",
    verb="Cancel",
    did="Cancelled",
    no="Leave them as they are",
    css="jr-danger",
    act=_cancel,
)
REQUEUE = Bulk(
    action="requeue",
    statuses=frozenset(str(status) for status in REQUEUEABLE),
    effect="Each runs again as a new attempt with the same input.",
    verb="Requeue",
    did="Requeued",
    no="Leave them as they are",
    css="jr-primary",
    act=_requeue,
)
