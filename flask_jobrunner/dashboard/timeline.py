"""What happened to a job, and how each of its attempts went, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from flask_jobrunner.model import ladder, words
from flask_jobrunner.model.records import Attempt, Event, Job
from flask_jobrunner.protocol.redact import mask_text

from .format import visible

_REASONS = (
    {str(reason): text for reason, text in words.STOP_WORDS.items()}
    | words.REASON_WORDS
    | {reason: f"by {text}" for reason, text in ladder.KILLERS.items()}
)

_DEEDS = {
    "stop": "Asked to stop",
    "stall": "No sign of life",
    "resumed": "Goes on",
    "stack": "Stack asked for",
    "kill": "Process ended",
    "download": "Downloaded",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One event of the timeline."""

    what: str
    at: datetime
    to: str
    who: str = ""
    why: str = ""
    offset: str = ""


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One attempt: how it went, where, and what it left behind."""

    number: int
    status: str
    ending: str
    lines: list[str] = field(default_factory=list)
    trace: str = ""


def entries(events: Sequence[Event]) -> list[Entry]:
    """The events, oldest first, each with the time since the one before."""
    found: list[Entry] = []
    before: datetime | None = None
    for event in events:
        found.append(_entry(event, before))
        before = event.at
    return found


def attempt_views(
    attempts: Sequence[Attempt],
    events: Sequence[Event],
    job: Job,
    now: datetime,
    keys: Sequence[str],
) -> list[AttemptView]:
    """The attempts, newest first; the facts tell of a first one that still runs."""
    if len(attempts) == 1 and attempts[0].ended_at is None:
        return []
    return [_attempt(attempt, events, job, now, keys) for attempt in reversed(attempts)]


def _entry(event: Event, before: datetime | None) -> Entry:
    offset = ""
    if before is not None:
        offset = f"+{words.duration(words.between(before, event.at) or 0)}"
        if event.at < before:
            offset = "clock skew"
    return Entry(
        what=_deed(event),
        at=event.at,
        to=event.to_status or "",
        who=visible(event.actor or ""),
        why=_why(event),
        offset=offset,
    )


def _deed(event: Event) -> str:
    match event.action, event.to_status:
        case "start" | "enqueue", _:
            return "Queued"
        case "claim", _:
            return "Started"
        case "cancel", "cancel_requested":
            return "Cancel requested"
        case "requeue" | "restart", _:
            return f"Requeued as attempt {event.attempt}"
        case action, _ if action in _DEEDS:
            return _DEEDS[action]
        case action, status:
            return words.STATUS_WORDS.get(status or "", action.replace("_", " ").capitalize())


def _why(event: Event) -> str:
    if not event.reason:
        told = ladder.silence(event)
        return told[:1].upper() + told[1:]
    return _REASONS.get(event.reason, event.reason)


def _attempt(
    attempt: Attempt, events: Sequence[Event], job: Job, now: datetime, keys: Sequence[str]
) -> AttemptView:
    current = attempt.attempt == job.attempt
    stopped = visible(" ".join(ladder.ladder(events, attempt)))
    status = attempt.end_status or (job.status if current else "interrupted")
    return AttemptView(
        number=attempt.attempt,
        status=status,
        ending=_ending(attempt, now, asked=bool(stopped)),
        lines=[line for line in (stopped, _place(attempt), _figures(attempt)) if line],
        trace="" if current else visible(mask_text(_trace(attempt), keys)),
    )


def _ending(attempt: Attempt, now: datetime, *, asked: bool) -> str:
    took = words.duration(words.between(attempt.claimed_at, attempt.ended_at or now) or 0)
    if attempt.ended_at is None:
        return "It runs now."
    told = attempt.exit_code is not None or attempt.signal is not None
    evidence = attempt.evidence or {}
    if attempt.signal is not None or evidence.get("spawn_error"):
        how = words.autopsy(evidence, asked=asked)
        return f"{how[:1].upper()}{how[1:]}."
    return f"Took {took}" + (f", exit code {attempt.exit_code}." if told else ".")


def _place(attempt: Attempt) -> str:
    worker = attempt.worker
    if worker.pid is None:
        return ""
    where = f"{worker.host}, " if worker.host else ""
    revision = f", revision {attempt.revision}" if attempt.revision else ""
    return visible(f"{where}pid {worker.pid}{revision}")


def _figures(attempt: Attempt) -> str:
    told = []
    if attempt.peak_rss and not attempt.signal:
        told.append(f"peak memory {words.size(attempt.peak_rss)}")
    if attempt.cpu_us is not None:
        told.append(f"CPU {words.duration(attempt.cpu_us / 1_000_000)}")
    text = ", ".join(told)
    return text[:1].upper() + text[1:]


def _trace(attempt: Attempt) -> str:
    message = ": ".join(t for t in (attempt.error_class, attempt.error_message) if t)
    return attempt.traceback or message
