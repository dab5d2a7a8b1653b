"""What a reader should know before anything else; each is shown only while it is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from flask_jobrunner.model import words
from flask_jobrunner.model.ladder import silent_since
from flask_jobrunner.model.records import Event, Job, OwnedJob
from flask_jobrunner.protocol.redact import mask_text

from .format import visible

WAITED_LONG = 10.0
"""Seconds after which a queued job owes an explanation."""
MESSAGE_SHOWN = 300


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One coloured line; `tone` is the status whose colours it wears."""

    tone: str
    text: str
    title: str = ""
    anchor: str = ""
    link: str = ""


def notices(
    owned: OwnedJob,
    now: datetime,
    events: Sequence[Event],
    *,
    error_shown: bool,
    untaken: str = "",
) -> list[Notice]:
    """The notices that are true now, most urgent first; `error_shown`: further down the page.

    `untaken` is why no supervisor takes the job.
    """
    found = [
        _late(owned),
        _silent(owned, now, events),
        _waiting(owned, now),
        _untaken(untaken),
        _stopping(owned, events),
    ]
    found.append(_ended(owned, error_shown=error_shown))
    return [notice for notice in found if notice is not None]


def _late(owned: OwnedJob) -> Notice | None:
    if not owned.job.is_stale or owned.heartbeat is None:
        return None
    silent = words.duration(round((owned.now - owned.heartbeat) / 1_000_000))
    return Notice(
        tone="cancel_requested",
        title=f"The worker has not reported for {silent}.",
        text="It may be busy, or gone; the job goes on as running until that is known.",
    )


def _silent(owned: OwnedJob, now: datetime, events: Sequence[Event]) -> Notice | None:
    job = owned.job
    since = silent_since(events, job.attempt) if job.status == "running" else None
    if since is None or job.stop_reason is not None:
        return None
    silent = words.duration(round((now - since).total_seconds()))
    return Notice(
        tone="cancel_requested",
        title=f"No progress and no output for {silent}.",
        text="The job goes on all the same. Where it was then is in its log; "
        f"`flask jobs show {job.id} --stack` tells where it is now.",
        anchor="jr-h-log",
        link="Show the log",
    )


def _waiting(owned: OwnedJob, now: datetime) -> Notice | None:
    job = owned.job
    if job.status != "queued" or owned.claim_deadline is None:
        return None
    if (now - job.queued_at).total_seconds() < WAITED_LONG:
        return None
    left = (_time(owned.claim_deadline) - now).total_seconds()
    if left <= 0:
        return None
    return Notice(
        tone="queued",
        title="No process has taken this job yet.",
        text=f"If none does within {words.duration(round(left))}, it ends as failed.",
    )


def _untaken(reason: str) -> Notice | None:
    if not reason:
        return None
    return Notice(tone="cancel_requested", title="Nobody takes this job.", text=visible(reason))


def _stopping(owned: OwnedJob, events: Sequence[Event]) -> Notice | None:
    job = owned.job
    if job.status == "cancel_requested":
        asked = next((e for e in reversed(events) if e.to_status == job.status), None)
        by = f" by {visible(asked.actor)}" if asked is not None and asked.actor else ""
        return Notice(
            tone="cancel_requested",
            title=f"Cancel requested{by}.",
            text="The job stops at its next checkpoint; work already done is kept.",
        )
    if job.status == "running" and job.stop_reason is not None:
        return Notice(
            tone="cancel_requested",
            title="The job was asked to stop.",
            text=f"The reason: {words.STOP_WORDS[job.stop_reason]}.",
        )
    return None


def _ended(owned: OwnedJob, *, error_shown: bool) -> Notice | None:
    job = owned.job
    if job.status not in ("failed", "interrupted", "lost"):
        return None
    first = first_line(job)
    if not (job.error_class or first):
        return None
    anchor, link = ("jr-h-log", "Show its last lines") if owned.log_seq else ("", "")
    if error_shown:
        anchor, link = "jr-h-error", "Show the error"
    return Notice(
        tone=job.status,
        title=visible(f"{job.error_class}:" if job.error_class else ""),
        text=visible(first),
        anchor=anchor,
        link=link,
    )


def first_line(job: Job) -> str:
    """The first line of a job's error message: not too long, without secrets, not the reason's
    own words, which the page says besides.
    """
    known = words.REASON_WORDS.get(job.error_reason_code or "", "")
    message = (job.error_message or "").strip().removeprefix(known).strip()
    lines = mask_text(message).splitlines()
    if not lines:
        return ""
    first = lines[0].removesuffix(words.LAST_WORDS).rstrip()
    return first if len(first) <= MESSAGE_SHOWN else first[:MESSAGE_SHOWN] + "…"


def _time(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
