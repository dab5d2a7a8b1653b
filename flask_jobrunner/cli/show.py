"""`show`: everything about one job; first, in a sentence, where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
from flask.cli import with_appcontext

from flask_jobrunner.caller.inspect import error_of
from flask_jobrunner.model import words
from flask_jobrunner.model.records import Attempt, Event, OwnedJob
from flask_jobrunner.protocol.encoding import decode_json
from flask_jobrunner.runtime import Runtime

from .common import (
    ago,
    find,
    job_argument,
    json_option,
    masked,
    moment,
    now_of,
    ready_runtime,
    subcommand,
)
from .log_lines import text_printer
from .output import count, echo, echo_json, one_line, safe, status_word

LAST_LINES = 10
SHORT_JSON = 76


@click.command("show", short_help="Show one job.")
@job_argument()
@json_option
@click.pass_context
@with_appcontext
def command(
    context: click.Context,
    job: int | str,
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
) -> None:
    """Show JOB: where it stands, what happened to it, how its process ended, its last lines.

    A job whose process is gone is settled first. Secrets in payload and result are masked.
    """
    runtime = ready_runtime()
    seen = find(runtime, job)
    events, attempts = runtime.events.of(seen.job.id), runtime.attempts.of(seen.job.id)
    if as_json:
        echo_json(masked(runtime, _as_dict(runtime, seen, events, attempts)))
        return
    for line in _page(runtime, seen, events, attempts):
        echo(line)
    _last_lines(context, runtime, seen)


def _as_dict(
    runtime: Runtime, seen: OwnedJob, events: list[Event], attempts: list[Attempt]
) -> dict[str, Any]:
    return {
        "sentence": words.sentence(seen.job, now_of(runtime, seen), _current(seen, attempts)),
        "job": seen.job.to_dict(),
        "result": decode_json(seen.result_json),
        "error": error_of(seen.job),
        "last_log_seq": seen.log_seq,
        "events": [event.to_dict() for event in events],
        "attempts": [
            {**attempt.to_dict(), "autopsy": _autopsy(attempt) or None} for attempt in attempts
        ],
    }


def _current(seen: OwnedJob, attempts: list[Attempt]) -> Attempt | None:
    return next((one for one in attempts if one.attempt == seen.job.attempt), None)


def _page(
    runtime: Runtime, seen: OwnedJob, events: list[Event], attempts: list[Attempt]
) -> Iterator[str]:
    job, now = seen.job, now_of(runtime, seen)
    yield click.style(words.sentence(job, now, _current(seen, attempts)), bold=True)
    yield ""
    for name, value in _facts(runtime, seen, now):
        if value:
            yield f"{name:<11}{value}"
    yield from _section("Timeline", [_event(event, runtime) for event in events])
    yield from _section("Attempts", [_attempt(attempt, now) for attempt in attempts])
    yield from _section("Error", _error(runtime, seen, attempts))
    if job.payload is not None:
        yield from _section("Payload", _json(runtime, job.payload))
    if seen.result_json is not None:
        yield from _section("Result", _json(runtime, decode_json(seen.result_json)))


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
    notes = [one_line(event.reason or "")]
    notes += [f"attempt {event.attempt}"] if event.attempt > 1 else []
    notes += [f"by {one_line(event.actor)}"] if event.actor else []
    told = ", ".join(note for note in notes if note)
    return "  ".join(part for part in [*parts, told] if part)


def _attempt(attempt: Attempt, now: datetime) -> str:
    took = words.duration(words.between(attempt.claimed_at, attempt.ended_at or now) or 0)
    end = attempt.end_status
    worker = attempt.worker
    text = f"{attempt.attempt}  " + (f"{status_word(end)} after {took}" if end else f"runs: {took}")
    if worker.pid is not None:
        text += f", on {one_line(worker.host or 'this host')}, pid {worker.pid}"
    autopsy = _autopsy(attempt)
    return f"{text}: {one_line(autopsy)}" if autopsy else text


def _autopsy(attempt: Attempt) -> str:
    """How the process ended, where that is news: not for one that ended as it should."""
    evidence = attempt.evidence or {}
    if attempt.ended_at is None or not evidence:
        return ""
    orderly = not attempt.signal and attempt.exit_code is not None and attempt.error_class
    done = attempt.end_status in ("succeeded", "cancelled") and not attempt.signal
    return "" if orderly or done else words.autopsy(evidence)


def _error(runtime: Runtime, seen: OwnedJob, attempts: list[Attempt]) -> list[str]:
    job, attempt = seen.job, _current(seen, attempts)
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


def _section(name: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield click.style(name, bold=True)
        yield from (f"  {line}" for line in lines)


def _last_lines(context: click.Context, runtime: Runtime, seen: OwnedJob) -> None:
    lines = runtime.logs.newest(seen.job.id, LAST_LINES)
    if not lines:
        return
    echo()
    hidden = seen.log_seq > len(lines)
    where = f", all of them with: {subcommand(context, f'logs {seen.job.id}')}" if hidden else ""
    echo(click.style("Last lines", bold=True) + where)
    show = text_printer(runtime, attempt=lines[0].attempt, indent="  ")
    for line in lines:
        show(line)
