"""The page that `show` prints of one job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from flask_jobrunner.caller.inspect import error_of, why_untaken
from flask_jobrunner.model import words
from flask_jobrunner.model.files import File
from flask_jobrunner.model.ladder import ladder, silence, silent_since
from flask_jobrunner.model.records import Attempt, Event, OwnedJob
from flask_jobrunner.protocol.encoding import decode_json
from flask_jobrunner.runtime import Runtime

from .common import ago, masked, moment, now_of
from .output import count, one_line, safe, status_word

SHORT_JSON = 76


def page(
    runtime: Runtime, seen: OwnedJob, events: list[Event], attempts: list[Attempt]
) -> Iterator[str]:
    """Its lines: a sentence, facts, what happened, the error, payload and result, masked."""
    job, now = seen.job, now_of(runtime, seen)
    yield click.style(words.sentence(job, now, current(seen, attempts)), bold=True)
    since = silent_since(events, job.attempt) if job.status == "running" else None
    if since is not None:
        silent = words.duration(words.between(since, now) or 0)
        at = moment(since, runtime.config.timezone)
        yield f"No progress and no output since {at}, for {silent}: see it with --stack."
    yield ""
    for name, value in _facts(runtime, seen, now):
        if value:
            yield f"{name:<11}{masked(runtime, value)}"
    yield from _section("Timeline", [_event(event, runtime) for event in events])
    yield from _section("Attempts", _attempts(events, attempts, now))
    yield from _section("Error", _error(runtime, seen, attempts))
    if job.payload is not None:
        yield from _section("Payload", _json(runtime, job.payload))
    if seen.result_json is not None:
        yield from _section("Result", _json(runtime, decode_json(seen.result_json)))
    yield from _section("Files", [_file(one.file, runtime) for one in runtime.files.of(job.id)])


def current(seen: OwnedJob, attempts: list[Attempt]) -> Attempt | None:
    """The attempt that the job is in, or ended with."""
    return next((one for one in attempts if one.attempt == seen.job.attempt), None)


def _facts(runtime: Runtime, seen: OwnedJob, now: datetime) -> Iterator[tuple[str, str]]:
    job, zone = seen.job, runtime.config.timezone
    yield "Job", f"{job.uuid}  (id {job.id})"
    yield "Type", one_line(job.job_type)
    yield "Title", one_line(job.title or "")
    reason = f" ({one_line(job.error_reason_code)})" if job.error_reason_code else ""
    yield "Status", status_word(job.status) + reason
    yield "Stop asked", words.STOP_WORDS[job.stop_reason] if job.stop_reason else ""
    for name in ("owner", "reference", "actor", "lock_key"):
        yield name.replace("_", " ").capitalize(), one_line(getattr(job, name) or "")
    yield "Created", f"{moment(job.created_at, zone)}, {ago(job.created_at, now)}"
    yield "Priority", str(job.priority) if job.priority else ""
    yield "Not before", moment(job.not_before, zone) if job.status == "queued" else ""
    yield "Nobody", one_line(why_untaken(runtime, seen))
    yield "Started", moment(job.started_at, zone)
    yield "Finished", moment(job.finished_at, zone)
    yield "Step", _step(seen)
    yield "Progress", _progress(seen)
    yield "Log", _log(seen)


def _step(seen: OwnedJob) -> str:
    job = seen.job
    label = one_line(job.current_step_label or job.current_step_key or "")
    if job.step_index is None:
        return label
    return f"{job.step_index} of {job.step_total}, {label}" if job.step_total else label


def _progress(seen: OwnedJob) -> str:
    done, total = seen.job.progress_done, seen.job.progress_total
    if done is None:
        return ""
    return f"{done:,} of {total:,}" if total else f"{done:,}"


def _log(seen: OwnedJob) -> str:
    told = [count(seen.log_seq, "line")]
    for number, noun in ((seen.job.warning_count, "warning"), (seen.job.error_count, "error")):
        told += [count(number, noun)] if number else []
    return ", ".join(told)


def _event(event: Event, runtime: Runtime) -> str:
    what = event.to_status if event.to_status != event.from_status else None
    parts = [moment(event.at, runtime.config.timezone), f"{event.action:<8}"]
    parts.append(status_word(what) if what else "")
    notes = [one_line(event.reason or ""), silence(event)]
    notes += [f"attempt {event.attempt}"] if event.attempt > 1 else []
    notes += [f"by {one_line(event.actor)}"] if event.actor else []
    told = ", ".join(note for note in notes if note)
    return "  ".join(part for part in [*parts, told] if part)


def _attempts(events: list[Event], attempts: list[Attempt], now: datetime) -> list[str]:
    told = list[str]()
    for attempt in attempts:
        stopped = ladder(events, attempt)
        told.append(_attempt(attempt, now, asked=bool(stopped)))
        told += [f"   {one_line(sentence)}" for sentence in stopped]
    return told


def _attempt(attempt: Attempt, now: datetime, *, asked: bool) -> str:
    took = words.duration(words.between(attempt.claimed_at, attempt.ended_at or now) or 0)
    end = attempt.end_status
    worker = attempt.worker
    text = f"{attempt.attempt}  " + (f"{status_word(end)} after {took}" if end else f"runs: {took}")
    if worker.pid is not None:
        text += f", on {one_line(worker.host or 'this host')}, pid {worker.pid}"
    ending = autopsy(attempt, asked=asked)
    return f"{text}: {one_line(ending)}" if ending else text


def autopsy(attempt: Attempt, *, asked: bool) -> str:
    """How the process ended, where that is news: not for one that ended as it should."""
    evidence = attempt.evidence or {}
    if attempt.ended_at is None or not evidence:
        return ""
    orderly = not attempt.signal and attempt.exit_code is not None and attempt.error_class
    done = attempt.end_status in ("succeeded", "cancelled") and not attempt.signal
    return "" if orderly or done else words.autopsy(evidence, asked=asked)


def _error(runtime: Runtime, seen: OwnedJob, attempts: list[Attempt]) -> list[str]:
    job, attempt = seen.job, current(seen, attempts)
    if error_of(job) is None:
        return []
    trace = attempt.traceback if attempt is not None else None
    kind = f"{job.error_class}: " if job.error_class else ""
    message = job.error_message or words.REASON_WORDS.get(job.error_reason_code or "", "")
    text = trace or f"{kind}{message}"
    return safe(masked(runtime, text)).splitlines()


def _json(runtime: Runtime, value: Any) -> list[str]:
    shown = masked(runtime, value)
    short = json.dumps(shown, ensure_ascii=False)
    long = len(short) > SHORT_JSON
    text = json.dumps(shown, indent=2, ensure_ascii=False) if long else short
    return safe(text).splitlines()


def _file(file: File, runtime: Runtime) -> str:
    zone = runtime.config.timezone
    parts = [f"{file.kind:<6}", one_line(file.name), words.size(file.size), file.content_type]
    parts += [f"attempt {file.attempt}"] if file.attempt > 1 else []
    parts += [f"removed {moment(file.expired_at, zone)}"] if file.expired_at else []
    return "  ".join(parts)


def _section(name: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield click.style(name, bold=True)
        yield from (f"  {line}" for line in lines)
