"""What the list shows: filters with capped counts, rows, and what a poll may change in them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from flask import url_for

from flask_jobrunner.model import words
from flask_jobrunner.model.records import Job, Page
from flask_jobrunner.model.statuses import JobStatus
from flask_jobrunner.repositories.listing import COUNT_CAP, JobFilter
from flask_jobrunner.runtime import Runtime

from . import notices, preferences
from .format import Clock, ago, masked, running_for, short_time, thousands, visible
from .narrowed import Narrowed
from .progress import ProgressView, progress_values, progress_view

PAGE_SIZE = 50
NEWS_CAP = 50
NONE = "\N{EN DASH}"


@dataclass(frozen=True, kw_only=True)
class FilterLink:
    """One state to filter by."""

    word: str
    url: str
    current: bool
    count: int
    shown: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One job in the table."""

    key: str
    job: Job
    url: str
    reference: str
    by: str
    for_owner: str
    ago: str
    queued: str
    clock: Clock
    progress: ProgressView | None
    remark: str
    warned: str
    """How many warnings and errors its log has; empty for none."""


def filter_links(counts: dict[str, int], shown: Narrowed) -> list[FilterLink]:
    """All states as links, each with its count."""
    everything = sum(counts.values())
    capped = any(count > COUNT_CAP for count in counts.values())
    links = [
        FilterLink(
            word="All",
            url=shown.within(None).url(),
            current=not shown.status,
            count=everything,
            shown=_capped(everything, capped=capped),
        )
    ]
    for status in JobStatus:
        count = counts.get(status, 0)
        links.append(
            FilterLink(
                word=words.STATUS_WORDS[status],
                url=shown.within(status).url(),
                current=str(status) in shown.status,
                count=count,
                shown=_capped(count, capped=count > COUNT_CAP),
            )
        )
    return links


def rows(runtime: Runtime, jobs: Sequence[Job], now: datetime) -> list[Row]:
    """The table's rows."""
    zone, keys = preferences.zone(runtime), runtime.config.redact_keys
    return [_row(job, now, zone, keys) for job in jobs]


def _row(job: Job, now: datetime, zone: tzinfo, keys: Sequence[str]) -> Row:
    by = job.actor or job.owner
    return Row(
        key=job.uuid[-12:],
        job=job,
        url=url_for(".detail", uuid=job.uuid),
        reference=masked("reference", job.reference, keys),
        by=masked("actor" if job.actor else "owner", by, keys),
        for_owner=masked("owner", job.owner, keys) if job.owner != by else "",
        ago=ago(job.queued_at, now),
        queued=short_time(job.queued_at, zone, now),
        clock=_clock(job, now),
        progress=progress_view(job, now) if job.is_active else None,
        remark=_remark(job, now, zone),
        warned=warned(job),
    )


def _clock(job: Job, now: datetime) -> Clock:
    """How long it ran; how long it waits, while it does."""
    if job.status == "queued":
        waiting = running_for(job.queued_at, now)
        return Clock(text=waiting.text, since=job.queued_at)
    if job.started_at is None:
        return Clock(text=NONE)
    if job.finished_at is None:
        return running_for(job.started_at, now)
    return Clock(text=words.duration(words.between(job.started_at, job.finished_at) or 0))


def _remark(job: Job, now: datetime, zone: tzinfo) -> str:
    """What stands in place of progress."""
    if job.status == "queued":
        if job.not_before is not None and job.not_before > now:
            return f"Not before {short_time(job.not_before, zone, now)}"
        return "Waiting to start"
    if job.status == "cancelled":
        stopped = progress_view(job, now)
        return f"Stopped at {stopped.line}" if stopped is not None else ""
    if job.is_active or job.status == "succeeded":
        return ""
    message = notices.first_line(job)
    if job.error_class:
        message = f"{job.error_class}: {message}"
    return visible(message or words.REASON_WORDS.get(job.error_reason_code or "", ""))[:160]


def warned(job: Job) -> str:
    """`3 warnings, 1 error`; empty where the log has none."""
    counts = ((job.warning_count, "warning"), (job.error_count, "error"))
    told = [f"{thousands(n)} {word}{'' if n == 1 else 's'}" for n, word in counts if n > 0]
    return ", ".join(told)


def news(runtime: Runtime, wanted: JobFilter, newest: int | None) -> str:
    """How many jobs came since the newest one that the page shows; empty for none."""
    if newest is None:
        return ""
    found = runtime.listing.find(wanted, cursor=f"n{newest}", limit=NEWS_CAP)
    number = len(found.jobs)
    if not number:
        return ""
    more = "+" if found.previous_cursor else ""
    return f"{number}{more} new job{'' if number == 1 else 's'}"


def tag(jobs: Sequence[Job], news_text: str) -> str:
    """A digest of what a poll of the list could change."""
    told: list[Any] = [news_text]
    for job in jobs:
        told += [job.uuid, job.status, job.attempt, warned(job), *progress_values(job)]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


def newest_id(page: Page, *, first_page: bool) -> int | None:
    """Above which id a job is news; None where the page is not the newest one."""
    if not first_page:
        return None
    return page.jobs[0].id if page.jobs else 0


def _capped(count: int, *, capped: bool) -> str:
    return f"{thousands(COUNT_CAP)}+" if capped else thousands(count)
