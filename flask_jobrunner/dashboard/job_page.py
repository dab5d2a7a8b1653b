"""What the page of one job shows, gathered once for the page and for its polls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from markupsafe import Markup

from flask_jobrunner.model import words
from flask_jobrunner.model.records import Attempt, Event, Job, OwnedJob
from flask_jobrunner.protocol.encoding import decode_json
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.runtime import Runtime

from . import deeds, job_facts, notices, preferences, timeline
from .access import Viewer
from .deeds import Action
from .file_list import FileView, file_views
from .format import Value, epoch_ms, json_value, running_for, visible
from .job_facts import Fact
from .lock_holder import other_holder
from .log_panel import LogPanel
from .notices import Around, Notice
from .polling import Poll
from .progress import ProgressView, progress_view
from .timeline import AttemptView, Entry
from .untaken import untaken
from .usual import usual_seconds


@dataclass(frozen=True, kw_only=True)
class ErrorView:
    """Why a job ended badly."""

    kind: str
    message: str
    code: str
    trace: str


@dataclass(frozen=True, kw_only=True)
class JobPage:
    """Everything that the templates of one job read."""

    sentence: str
    announcement: str
    notices: list[Notice]
    progress: ProgressView | None
    log: LogPanel
    poll: Poll | None
    actions: list[Action] = field(default_factory=list)
    read_only: bool = False
    facts: list[Fact] = field(default_factory=list)
    timeline: list[Entry] = field(default_factory=list)
    attempts: list[AttemptView] = field(default_factory=list)
    payload: Value | None = None
    result: Value | None = None
    error: ErrorView | None = None
    files: list[FileView] = field(default_factory=list)


def job_page(
    viewer: Viewer, owned: OwnedJob, log: LogPanel, poll: Poll | None, *, whole: bool
) -> JobPage:
    """The page; without `whole` only what changes while nothing but progress moves."""
    runtime, job, now = viewer.runtime, owned.job, read_at(owned)
    progress = progress_view(job, now)
    if not whole:
        # A stall leaves a warning: without one there is none to look for.
        told = job.status == "cancel_requested" or (job.status == "running" and job.warning_count)
        asked = runtime.events.of(job.id) if told else []
        return JobPage(
            sentence="",
            announcement="",
            notices=notices.notices(owned, now, _around(runtime, owned, asked)),
            progress=progress,
            log=log,
            poll=poll,
        )
    attempts, events = runtime.attempts.of(job.id), runtime.events.of(job.id)
    current = next((a for a in attempts if a.attempt == job.attempt), None)
    actions = deeds.allowed(viewer, owned)
    keys = runtime.config.redact_keys
    error = _error(job, current, keys)
    visible_values = viewer.may("view_payload", owned)
    return JobPage(
        sentence=sentence(job, now, current),
        announcement=f"{words.STATUS_WORDS[job.status]}. {words.sentence(job, now, current)}",
        notices=notices.notices(
            owned, now, _around(runtime, owned, events, error_shown=error is not None)
        ),
        progress=progress,
        log=log,
        poll=poll,
        actions=actions,
        read_only=not actions and deeds.possible(runtime, owned) != [],
        facts=job_facts.facts(
            owned,
            current,
            now,
            preferences.zone(runtime),
            usual_seconds(runtime, job, viewer.scope),
            keys=keys,
            kept_until=kept_until(job, runtime.config.job_retention),
            log_kept_until=_log_kept_until(runtime, owned),
            holder=other_holder(viewer, job),
        ),
        timeline=timeline.entries(events),
        attempts=timeline.attempt_views(attempts, events, job, now, keys),
        payload=_payload(job, keys, shown=visible_values),
        result=_result(owned, keys, shown=visible_values),
        error=error,
        files=file_views(viewer, owned),
    )


def kept_until(job: Job, seconds: float | None) -> datetime | None:
    """When what ended with the job is removed; None where it is not. A lost job stays."""
    if seconds is None or job.finished_at is None or job.status == "lost":
        return None
    return job.finished_at + timedelta(seconds=seconds)


def _log_kept_until(runtime: Runtime, owned: OwnedJob) -> datetime | None:
    """Where that is earlier than the job's own end."""
    config = runtime.config
    end = kept_until(owned.job, config.log_retention) if owned.log_seq else None
    whole = kept_until(owned.job, config.job_retention)
    return None if end is not None and whole is not None and whole <= end else end


def _around(
    runtime: Runtime, owned: OwnedJob, events: Sequence[Event], *, error_shown: bool = False
) -> Around:
    return Around(
        zone=preferences.zone(runtime),
        events=events,
        error_shown=error_shown,
        untaken=untaken(runtime, owned),
        grace=deeds.cancel_grace(runtime, owned),
        kept_until=kept_until(owned.job, runtime.config.job_retention),
    )


def read_at(owned: OwnedJob) -> datetime:
    """The database's clock when the row was read: durations on the page are measured with it."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=owned.now)


def sentence(job: Job, now: datetime, attempt: Attempt | None) -> Markup | str:
    """Where the job stands; a duration in it that still grows is marked for the page to tick."""
    text = visible(words.sentence(job, now, attempt))
    since = job.started_at or job.queued_at
    if not job.is_active:
        return text
    shown = words.duration(words.between(since, now) or 0)
    before, found, after = text.partition(shown)
    if not found:
        return text
    clock = running_for(since, now)
    return Markup('{}<span data-since="{}">{}</span>{}').format(
        before, epoch_ms(since), clock.text, after
    )


def _payload(job: Job, keys: Sequence[str], *, shown: bool) -> Value:
    if not shown:
        return Value(id="jr-payload", hidden=True)
    return json_value("jr-payload", job.payload, keys, absent="This job was given no payload")


def _result(owned: OwnedJob, keys: Sequence[str], *, shown: bool) -> Value | None:
    if owned.result_json is None:
        return None
    if not shown:
        return Value(id="jr-result-value", hidden=True)
    return json_value("jr-result-value", decode_json(owned.result_json), keys)


def _error(job: Job, attempt: Attempt | None, keys: Sequence[str]) -> ErrorView | None:
    trace = attempt.traceback if attempt is not None else None
    message = (job.error_message or "").strip()
    told_whole = message.endswith(notices.first_line(job)) and "\n" not in message
    if told_whole and not (job.error_class or trace):
        return None
    if job.is_active:
        return None
    return ErrorView(
        kind=visible(job.error_class or ""),
        message=visible(mask_text(job.error_message or "", keys)),
        code=job.error_reason_code or "",
        trace=visible(mask_text(trace or "", keys)),
    )
