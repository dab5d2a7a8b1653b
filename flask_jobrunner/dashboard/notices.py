"""What a reader should know before anything else; each is shown only while it is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from flask_jobrunner.model import words
from flask_jobrunner.model.ladder import silent_since
from flask_jobrunner.model.records import Event, Job, OwnedJob
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.runtime import current_runtime

from .format import Clock, moment, running_for, visible

WAITED_LONG = 10.0
"""Seconds after which a queued job owes an explanation."""
MESSAGE_SHOWN = 300


DAY = 86400.0
"""Seconds before its removal from which on a job's page says so first of all."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One coloured line; `tone` is the status whose colours it wears."""

    tone: str
    text: str
    title: str = ""
    clock: Clock | None = None
    """How long it is true already; it ends the title."""
    anchor: str = ""
    link: str = ""
    deed: bool = False
    """Whether it tells of what somebody did."""


@dataclass(frozen=True, kw_only=True)
class Around:
    """What is known of a job beside its row. `error_shown`: further down the page; `untaken`: why
    no supervisor takes it; `grace`: seconds after which a cancel ends its process; `kept_until`:
    when retention removes it.
    """

    zone: tzinfo
    events: Sequence[Event] = ()
    error_shown: bool = False
    untaken: str = ""
    grace: float | None = None
    kept_until: datetime | None = None


def notices(owned: OwnedJob, now: datetime, around: Around) -> list[Notice]:
    """The notices that are true now, most urgent first."""
    found = [
        _late(owned, now),
        _silent(owned, now, around),
        _waiting(owned, now, around),
        _untaken(around.untaken),
        _stopping(owned, now, around),
        _lost(owned, now, around),
        _ended(owned, error_shown=around.error_shown),
        _leaving(now, around),
    ]
    return [notice for notice in found if notice is not None]


def has_heard(owned: OwnedJob) -> bool:
    """Whether the process has renewed its lease since the cancel: the answer told it."""
    asked, beat = owned.cancel_requested_at, owned.heartbeat
    return asked is not None and beat is not None and beat > asked


def _late(owned: OwnedJob, now: datetime) -> Notice | None:
    if not owned.job.is_stale or owned.heartbeat is None:
        return None
    return Notice(
        tone="cancel_requested",
        title="The worker has not reported for",
        clock=running_for(_time(owned.heartbeat), now),
        text="It may be busy, or gone; the job goes on as running until that is known.",
    )


def _silent(owned: OwnedJob, now: datetime, around: Around) -> Notice | None:
    job = owned.job
    since = silent_since(around.events, job.attempt) if job.status == "running" else None
    if since is None or job.stop_reason is not None:
        return None
    return Notice(
        tone="cancel_requested",
        title="No progress and no output for",
        clock=running_for(since, now),
        text="The job goes on all the same. Where it was then is in its log; "
        f"`flask jobs show {job.id} --stack` tells where it is now.",
        anchor="jr-h-log",
        link="Show the log",
    )


def _waiting(owned: OwnedJob, now: datetime, around: Around) -> Notice | None:
    job = owned.job
    if job.status != "queued":
        return None
    if job.not_before is not None and job.not_before > now:
        again = "It runs again at" if job.attempt > 1 else "It does not start before"
        return Notice(
            tone="queued",
            title=f"{again} {moment(job.not_before, around.zone, now)}.",
            text="",
        )
    waited = (now - job.queued_at).total_seconds()
    if owned.claim_deadline is None or waited < WAITED_LONG:
        return None
    end = _time(owned.claim_deadline)
    if end <= now:
        return None
    return Notice(
        tone="queued",
        title="No process has taken this job yet.",
        text=f"If none does until {moment(end, around.zone, now)}, it ends as failed.",
    )


def _untaken(reason: str) -> Notice | None:
    if not reason:
        return None
    return Notice(tone="cancel_requested", title="Nobody takes this job.", text=visible(reason))


def _stopping(owned: OwnedJob, now: datetime, around: Around) -> Notice | None:
    job = owned.job
    if job.status == "cancel_requested":
        return Notice(
            tone="cancel_requested",
            title=_asked(job, now, around),
            text=_what_follows(owned, now, around),
            deed=True,
        )
    if job.status == "running" and job.stop_reason is not None:
        return Notice(
            tone="cancel_requested",
            title="The job was asked to stop.",
            text=f"The reason: {words.STOP_WORDS[job.stop_reason]}.",
        )
    return None


def _asked(job: Job, now: datetime, around: Around) -> str:
    """Who asked, for what, and when."""
    deeds = ("cancel", "force_stop")
    asked = next((e for e in reversed(around.events) if e.action in deeds), None)
    what = "Forced to stop" if job.stop_reason == "force" else "Cancel requested"
    if asked is None:
        return f"{what}."
    by = f" by {visible(asked.actor)}" if asked.actor else ""
    return f"{what}{by}, {moment(asked.at, around.zone, now)}."


def _what_follows(owned: OwnedJob, now: datetime, around: Around) -> str:
    if owned.job.stop_reason == "force":
        return "Its process is being ended."
    if owned.is_inline or owned.heartbeat is None:
        return "The job stops at its next checkpoint; work already done is kept."
    told = "Its process has not heard of it yet. It will with its next heartbeat."
    if has_heard(owned):
        told = "Its process knows. The job stops at its next checkpoint; work already done is kept."
    if around.grace is None or owned.cancel_requested_at is None:
        return told
    end = _time(owned.cancel_requested_at) + timedelta(seconds=around.grace)
    return f"{told} If it goes on, its process is ended at about {moment(end, around.zone, now)}."


def _lost(owned: OwnedJob, now: datetime, around: Around) -> Notice | None:
    if owned.job.status != "lost" or owned.heartbeat is None:
        return None
    since = moment(_time(owned.heartbeat), around.zone, now)
    return Notice(
        tone="lost",
        title=f"The worker last reported at {since}.",
        text="The job may have been interrupted.",
    )


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


def _leaving(now: datetime, around: Around) -> Notice | None:
    end = around.kept_until
    if end is None or (end - now).total_seconds() > DAY:
        return None
    return Notice(
        tone="queued",
        title=f"This job will be removed at {moment(max(end, now), around.zone, now)}.",
        text="Jobs that have ended are kept for a time only.",
    )


def first_line(job: Job) -> str:
    """The first line of a job's error message: not too long, without secrets, not the reason's
    own words, which the page says besides.
    """
    known = words.REASON_WORDS.get(job.error_reason_code or "", "")
    message = (job.error_message or "").strip().removeprefix(known).strip()
    lines = mask_text(message, current_runtime().config.redact_keys).splitlines()
    if not lines:
        return ""
    first = lines[0].removesuffix(words.LAST_WORDS).rstrip()
    return first if len(first) <= MESSAGE_SHOWN else first[:MESSAGE_SHOWN] + "…"


def _time(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
