"""Recording how a child ended, and settling one row that somebody looks at.

Everything here may run twice, at once, or after the fact: each write names what it saw.
"""

from __future__ import annotations

import json
from typing import Any

from flask import has_request_context, request

from flask_jobrunner.files.leftovers import clear_attempt
from flask_jobrunner.model.records import Job, NewLine, OwnedJob
from flask_jobrunner.model.statuses import OWNED, Reason
from flask_jobrunner.model.words import LAST_WORDS, REASON_WORDS, autopsy
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.encoding import clean_text
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.protocol.output import OutputParser
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.protocol.report import EndReport
from flask_jobrunner.protocol.stacks import stack_lines
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.signals import job_finished, send

from . import spool
from .deadlines import expire_queued
from .stop import end_what_is_left
from .verdict import verdict

LAST_WORDS_BYTES = 8192
REPORT_PATIENCE = 5.0
"""Seconds beyond a heartbeat that a living parent has for its report."""
TRIES = 5
AFTER_THE_END = "Written while the process ended, after the job's last line:"


def settle_report(runtime: Runtime, report: EndReport) -> bool:
    """Record a parent's report. True when it is in the database, now or before."""
    fault_point("report.before")
    for _ in range(TRIES):
        seen = runtime.jobs.owned(report.uuid)
        if seen is None:
            return True  # the row is gone, and nothing is left to say about it
        if _record(runtime, seen, report):
            fault_point("report.recorded")
            return True
    return False


def _record(runtime: Runtime, seen: OwnedJob, report: EndReport) -> bool:
    job, token = seen.job, report.token or _token_of_the_dead(runtime, seen, report)
    current = job.attempt == report.attempt
    if current and job.status == "queued":
        # What waits for supervisors does not fail because one of their processes did.
        return seen.claim_mode == "trusted" or _end_unclaimed(runtime, seen, report)
    if token is None:
        return True  # never claimed, and the row says already how this launch ended
    if current and job.status in OWNED and seen.worker_token == token:
        return _end_claimed(runtime, seen, report)
    values, lines = attempt_values(report), list[NewLine]()
    if job.status in OWNED:
        # Of an earlier attempt: its last words must not come between the lines of this one.
        words = {"last_words": last_words(runtime, report)}
        values["evidence_json"] = json.dumps(report.evidence() | words)
    elif lines := last_output(runtime, report):
        lines.insert(0, NewLine(AFTER_THE_END, "info", at=lines[0].at))
    recorded = runtime.attempts.add_report(job.id, report.attempt, token, values, lines)
    if recorded and current:
        _explain(runtime, seen, report)
    return recorded


def _explain(runtime: Runtime, seen: OwnedJob, report: EndReport) -> None:
    """Whoever found the job without its owner may have been quicker than its parent's report."""
    if (seen.job.status, seen.job.error_reason_code) != ("interrupted", Reason.OWNER_GONE):
        return
    judged = verdict(seen, report.evidence())
    if judged.status == "interrupted":
        runtime.endings.explain(seen.job, judged)


def _token_of_the_dead(runtime: Runtime, seen: OwnedJob, report: EndReport) -> str | None:
    """The row's own token, where the claim's message was lost and the owner is proven dead."""
    if seen.job.attempt != report.attempt or seen.worker_token is None:
        return None
    look = identity.look(seen.worker, runtime.config.instance)
    return seen.worker_token if look == "dead" else None


def _end_unclaimed(runtime: Runtime, seen: OwnedJob, report: EndReport) -> bool:
    timed_out = report.killed == "claim_window"
    reason = Reason.LAUNCH_TIMEOUT if timed_out else Reason.LAUNCH_FAILED
    message = told_end(
        runtime, report, REASON_WORDS.get(report.refused or reason, REASON_WORDS[reason])
    )
    ended = runtime.jobs.fail_queued(
        seen.job.id, report.attempt, reason, message=message, evidence=report.evidence()
    )
    if ended:
        tell_finished(runtime, seen.job.uuid)
    return ended


def told_end(runtime: Runtime, report: EndReport, what: str) -> str:
    """`what`, and how the process ended that claimed nothing."""
    said = last_words(runtime, report)
    text = f"{what} The process: {autopsy(report.evidence())}."
    return f"{text} {LAST_WORDS}\n{said}" if said else text


def _end_claimed(runtime: Runtime, seen: OwnedJob, report: EndReport) -> bool:
    judged = verdict(seen, report.evidence())
    lines = last_output(runtime, report)
    ended = runtime.endings.end_dead(seen, judged, lines=lines, report=attempt_values(report))
    if ended:
        clear_attempt(runtime, seen.job)
        tell_finished(runtime, seen.job.uuid)
    return ended


def attempt_values(report: EndReport) -> dict[str, Any]:
    """The attempt's columns that a report fills."""
    return {
        "exit_code": report.exit_code,
        "signal": report.signal,
        "peak_rss": report.peak_rss,
        "cpu_us": None if report.cpu is None else round(report.cpu * 1_000_000),
        "evidence_json": json.dumps(report.evidence()),
    }


def last_output(runtime: Runtime, report: EndReport) -> list[NewLine]:
    """The output that the child had written and nobody had stored yet, as lines."""
    config = runtime.config
    parser = OutputParser(report.nonce, config.log_chunk_max_bytes, redact_keys=config.redact_keys)
    now, lines = runtime.database.clock(), list[NewLine]()
    stdout, stderr = report.output()
    for stream, data, dropped in (
        ("stdout", stdout, report.stdout_dropped),
        ("stderr", stderr, report.stderr_dropped),
    ):
        if dropped:
            text = f"{dropped:,} bytes of {stream} are missing here."
            lines.append(NewLine(message=text, level="warning", at=now))
        lines += parser.feed(stream, data, now)
    lines += parser.close()
    lines += [
        NewLine(message=line, level="error", stream="stderr", at=now)
        for line in stack_lines(report.fault, config.redact_keys)
    ]
    return lines


def last_words(runtime: Runtime, report: EndReport) -> str:
    """The end of what an unclaimed child printed, with secrets masked."""
    stdout, stderr = report.output()
    parts = [data[-LAST_WORDS_BYTES:].decode("utf-8", "replace") for data in (stdout, stderr)]
    text = "\n".join(part.strip() for part in parts if part.strip())
    return mask_text(clean_text(text), runtime.config.redact_keys)


def tell_finished(runtime: Runtime, uuid: str) -> None:
    """Send `job_finished` for a row that has just been moved to a terminal status.

    Not from a request that only looks: whoever reads a page must not cause what receivers do.
    """
    if has_request_context() and request.method in {"GET", "HEAD"}:
        return
    job = runtime.jobs.get(uuid)
    if job is not None and job.is_terminal:
        send(job_finished, runtime.app, job=job)


def settle_row(runtime: Runtime, ref: int | str) -> OwnedJob | None:
    """The row, after ending what can be proven over: deadlines, a spooled report, a dead owner.

    Never says `lost`: that takes a sweeper that watched.
    """
    seen = runtime.jobs.owned(ref)
    return None if seen is None else settle_seen(runtime, seen)


def settle_seen(runtime: Runtime, seen: OwnedJob) -> OwnedJob | None:
    """The same for a row that has just been read; it is read again when something was ended."""
    if not seen.job.is_active:
        return seen
    fault_point("sweep.read")
    if expire_queued(runtime, seen):
        tell_finished(runtime, seen.job.uuid)
    elif not _settle_owner(runtime, seen):
        return seen
    return runtime.jobs.owned(seen.job.id)


def _settle_owner(runtime: Runtime, seen: OwnedJob) -> bool:
    if seen.job.status not in OWNED:
        return False
    look = identity.look(seen.worker, runtime.config.instance)
    if look == "alive" or _parent_will_report(runtime, seen):
        return False
    report = spool.find(runtime, seen.job.uuid, seen.job.attempt)
    if report is not None:
        return settle_report(runtime, report)
    if look == "dead":
        # A requeue must not run beside what the dead process had started.
        return _end_gone(runtime, seen, ended=end_what_is_left(seen))
    # Nobody here can look. Without a start marker nothing ran, and an expired lease is enough.
    expired = seen.lease_until is not None and seen.lease_until < seen.now
    return not seen.started and expired and _end_gone(runtime, seen)


def _end_gone(runtime: Runtime, seen: OwnedJob, *, ended: int | None = None) -> bool:
    evidence = {
        "host": seen.worker.host,
        "pid": seen.worker.pid,
        "report": None,
        "leftovers_ended": ended or 0,
    }
    done = runtime.endings.end_dead(seen, verdict(seen, evidence))
    # What cannot be seen may still be writing.
    if done and ended is not None:
        clear_attempt(runtime, seen.job)
    if done:
        tell_finished(runtime, seen.job.uuid)
    return done


def _parent_will_report(runtime: Runtime, seen: OwnedJob) -> bool:
    """Whether the parent lives and may still say how its child ended."""
    if identity.look(seen.parent, runtime.config.instance) != "alive":
        return False
    patience = (runtime.config.heartbeat + REPORT_PATIENCE) * 1_000_000
    return seen.now < (seen.heartbeat or 0) + patience


def holder_settled(runtime: Runtime, lock_key: str) -> Job | None:
    """Who holds the lock key, after settling: None when the lock is free now."""
    holder = runtime.jobs.holder(lock_key)
    if holder is None:
        return None
    settled = settle_row(runtime, holder.job.id)
    return settled.job if settled is not None and holds(settled) else None


def holds(owned: OwnedJob) -> bool:
    """Whether a row still holds its lock: active, or lost."""
    return owned.job.is_active or owned.job.status == "lost"
