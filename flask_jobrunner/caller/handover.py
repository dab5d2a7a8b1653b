"""Handing a committed row to a process of its own, and saying truly what became of it.

No transaction is open here. The caller believes the row, not the pipe: a lost acknowledgement is
no failure, and a failed launch must not leave a credential that could still be used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass

from flask_jobrunner.model.errors import DatabaseAway, LaunchError, LaunchUnknown, LockBusy
from flask_jobrunner.model.records import Job
from flask_jobrunner.model.results import LaunchStatus
from flask_jobrunner.model.statuses import JobStatus, Reason
from flask_jobrunner.model.words import REASON_WORDS
from flask_jobrunner.protocol.command import child_environment, shim_command
from flask_jobrunner.protocol.encoding import clean_text
from flask_jobrunner.protocol.envelope import Envelope, dump_envelope
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.protocol.report import ReportError, parse_report
from flask_jobrunner.recovery.settle import settle_report, tell_finished
from flask_jobrunner.runtime import Runtime

from .launch import LaunchCommand, LaunchHandle, launcher

Wait = bool | float
"""True waits for JOBRUNNER_ACK_TIMEOUT, a number for so many seconds, False not at all."""


@dataclass(frozen=True, kw_only=True)
class Launched:
    """What became of one launch."""

    status: LaunchStatus
    job: Job
    reason_code: str | None = None
    message: str | None = None


def launch_attempt(runtime: Runtime, job: Job, credential: str, *, wait: Wait) -> Launched:
    """Launch the process of `job`'s current attempt.

    Raises `LaunchUnknown` when the database goes away before it can say what happened.
    """
    try:
        handle = _launch(runtime, job, credential)
    except (LaunchError, OSError, ValueError) as error:
        text = str(error)
        return _known(job, lambda: _never_ran(runtime, job, text))
    fault_point("submit.before_ack_read")
    seconds = runtime.config.ack_timeout if wait is True else float(wait)
    answer = handle.wait(seconds) if seconds > 0 else "waiting"
    if answer in {"waiting", "claimed"}:
        return _known(job, lambda: from_row(runtime, job))
    return _known(job, lambda: _ended(runtime, job, handle))


def _launch(runtime: Runtime, job: Job, credential: str) -> LaunchHandle:
    envelope = Envelope(
        job_id=job.id,
        job_uuid=job.uuid,
        attempt=job.attempt,
        claim_mode="token",
        credential=credential,
        revision=runtime.config.revision,
        config_digest=runtime.config.digest,
        fingerprint=runtime.meta.ensure().fingerprint,
        claim_window=runtime.config.claim_window,
        lease=runtime.config.lease,
    )
    settings = {
        "spool": str(runtime.make_spool_dir()),
        "claim_window": runtime.config.claim_window,
        "uuid": job.uuid,
        "attempt": job.attempt,
    }
    command = LaunchCommand(
        argv=tuple(shim_command(json.dumps(settings), runtime.command())),
        env=child_environment(os.environ),
    )

    def record(line: bytes) -> bool:
        """Runs in the launcher's recorder thread, long after the request."""
        try:
            report = parse_report(line)
        except ReportError:
            return False
        with runtime.app.app_context():
            return settle_report(runtime, report)

    return launcher().launch(command, dump_envelope(envelope), record)


def _known(job: Job, ask: Callable[[], Launched]) -> Launched:
    try:
        return ask()
    except (DatabaseAway, LockBusy) as error:
        raise LaunchUnknown(
            f"Job {job.uuid} was committed, but the database could not say what became of its "
            f"launch: {error} Ask jobs.get({job.uuid!r}) later.",
            job.uuid,
        ) from error


def _never_ran(runtime: Runtime, job: Job, text: str, *, refused: str | None = None) -> Launched:
    text = mask_text(clean_text(text), runtime.config.redact_keys)
    why = REASON_WORDS.get(refused or "", REASON_WORDS[Reason.LAUNCH_FAILED])
    failed = runtime.jobs.fail_queued(
        job.id,
        job.attempt,
        Reason.LAUNCH_FAILED,
        message=f"{why} {text}",
        evidence={"error": text[:500], "refused": refused},
    )
    if failed:
        tell_finished(runtime, job.uuid)
    return from_row(runtime, job)


def _ended(runtime: Runtime, job: Job, handle: LaunchHandle) -> Launched:
    """The child or its parent has ended: after this, the credential opens nothing."""
    report = None
    if handle.report is not None:
        try:
            report = parse_report(handle.report)
        except ReportError:
            report = None
    if report is not None and settle_report(runtime, report):
        return from_row(runtime, job)
    if handle.refusal is not None:
        return _never_ran(runtime, job, f"It refused: {handle.refusal}.", refused=handle.refusal)
    return _never_ran(runtime, job, "The process that watches it ended without a report.")


def from_row(runtime: Runtime, job: Job) -> Launched:
    """What the row and the events of this very attempt say became of a launch."""
    now = runtime.jobs.get(job.id) or job
    if now.attempt == job.attempt and now.status == "queued":
        return Launched(status="launching", job=now, message="The process has not claimed it yet.")
    if runtime.events.was_claimed(job.id, job.attempt):
        return Launched(status="started", job=now)
    end = runtime.events.end_of(job.id, job.attempt)
    cancelled = end is not None and end.to_status == JobStatus.CANCELLED
    reason = "cancelled" if cancelled else (end.reason if end else now.error_reason_code)
    message = "The job was cancelled before it was claimed." if cancelled else now.error_message
    return Launched(status="launch_failed", job=now, reason_code=reason, message=message)
