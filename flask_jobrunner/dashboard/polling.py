"""How a page asks again: where, how often, and when no more. The server decides all three.

A poller carries what its page shows: the cursor of the log, the row's version, a digest of the
progress. So a lost answer is asked for again, and nothing is shown twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flask import url_for

from flask_jobrunner.model.records import Job, OwnedJob
from flask_jobrunner.runtime import Runtime

from . import deeds, job_list, notices
from .narrowed import Narrowed
from .progress import progress_tag
from .system_lines import Told
from .untaken import untaken

LIST_SECONDS = 5.0
REPORT_PATIENCE = 15.0
"""Seconds after the end in which the parent's report may still bring the last lines."""


@dataclass(frozen=True, kw_only=True)
class Poll:
    """Where and when a page asks again."""

    url: str
    seconds: str


def job_poll(runtime: Runtime, owned: OwnedJob, cursor: int, told: Told, *, quiet: float) -> Poll:
    """The next poll of a job's page that was `quiet` (no line, no change) for so many seconds."""
    now = owned.now / 1_000_000
    seconds = shown(job_seconds(owned.job, now, quiet), runtime.config.poll_min)
    url = url_for(
        ".job_live",
        uuid=owned.job.uuid,
        c=cursor,
        e=told.event or None,
        w=told.version or None,
        v=owned.row_version,
        p=page_tag(runtime, owned),
        i=seconds,
        q=int(now - quiet),
    )
    return Poll(url=url, seconds=seconds)


def page_tag(runtime: Runtime, owned: OwnedJob) -> str:
    """A digest of what may change on a job's page while its row does not."""
    forced = "forced" if deeds.may_be_forced(runtime, owned) else ""
    heard = "heard" if notices.has_heard(owned) else ""
    return progress_tag(owned.job, untaken(runtime, owned) + forced + heard)


def goes_on(runtime: Runtime, owned: OwnedJob, cursor: int) -> bool:
    """Whether a page that shows the log up to `cursor` has anything to wait for."""
    if owned.job.is_active or cursor < owned.log_seq:
        return True
    ended, now = owned.job.finished_at, owned.now / 1_000_000
    if ended is None or owned.worker.pid is None or now - ended.timestamp() > REPORT_PATIENCE:
        return False
    return not runtime.attempts.is_reported(owned.job.id, owned.job.attempt)


def job_seconds(job: Job, now: float, quiet: float) -> float:
    """Seconds to the next poll; `now` in seconds since 1970."""
    if job.status == "queued":
        # A pushed job is about to start; one that waits longer has somebody to wait for.
        return 1.0 if now - job.queued_at.timestamp() < 10 else 5.0
    if job.status == "cancel_requested":
        return 1.0 if now - job.updated_at.timestamp() < 30 else 2.0
    if job.is_terminal or quiet < 10:
        return 1.0
    return 2.0 if quiet < 300 else 5.0


def supervisors_poll(runtime: Runtime, tag: str) -> Poll:
    """The next poll of the supervisors' page."""
    url = url_for(".supervisors_live", v=tag)
    return Poll(url=url, seconds=shown(LIST_SECONDS, runtime.config.poll_min))


def list_poll(
    runtime: Runtime,
    jobs: Sequence[Job],
    narrowed: Narrowed,
    newest: int | None,
    *,
    news: str,
) -> Poll:
    """The next poll of the list: the rows that may still change, and what was newest."""
    active = [job for job in jobs if job.is_active]
    url = url_for(
        ".list_live",
        **narrowed.parameters(),
        n=newest,
        a=",".join(job.uuid for job in active) or None,
        v=job_list.tag(active, news),
    )
    return Poll(url=url, seconds=shown(LIST_SECONDS, runtime.config.poll_min))


def shown(seconds: float, floor: float) -> str:
    """The interval as the page is told it, not below the configured floor."""
    return f"{max(seconds, floor):g}"
