"""Sentences, durations and autopsy text, so that a page and a command say the same."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from .records import Attempt, Job, NewLine, Outcome, Supervisor
from .statuses import JobStatus, StopReason

LAST_WORDS = "Its last words:"
"""The end of the first line of a message that goes on with what a process wrote."""

STATUS_WORDS: dict[str, str] = {
    JobStatus.QUEUED: "Queued",
    JobStatus.RUNNING: "Running",
    JobStatus.CANCEL_REQUESTED: "Cancelling",
    JobStatus.SUCCEEDED: "Succeeded",
    JobStatus.FAILED: "Failed",
    JobStatus.CANCELLED: "Cancelled",
    JobStatus.INTERRUPTED: "Interrupted",
    JobStatus.LOST: "Lost",
}

REASON_WORDS: dict[str, str] = {
    "launch_failed": "The job's process could not be started, or ended before it took the job.",
    "launch_timeout": "The job's process did not take the job within the claim window.",
    "never_launched": "The process that should have launched the job was gone before it did.",
    "queue_timeout": "The job waited for longer than its queue budget.",
    "revision_mismatch": "The job was made for another revision of the code than the one that ran.",
    "poison": "The job ended its process again and again before the handler could start.",
    "handler_not_registered": "No handler is registered for this job type.",
    "handler_not_importable": "The handler could not be imported.",
    "handler_contract_mismatch": "What is registered as the handler cannot be run as one.",
    "invalid_payload": "The payload was refused.",
    "handler_raised": "The handler raised an exception.",
    "handler_exited": "The handler tried to end the process instead of returning.",
    "result_not_encodable": "The handler finished, but its result cannot be stored as JSON.",
    "result_too_large": "The handler finished, but its result is too large to be stored.",
    "cancelled_unasked": "The handler stopped as cancelled, but nobody had asked for it.",
    "run_timeout": "The job ran for longer than its run budget and was stopped.",
    "stalled": "The job showed no progress for too long and was stopped.",
    "not_started": "The process ended before the handler began: nothing was run.",
    "shutdown": "The process was told to shut down, and the handler stopped.",
    "process_died": "The process ended without a result; the work may be incomplete.",
    "cancel_forced": "The handler did not stop by itself, so its process was ended.",
    "owner_gone": "The process is gone without a report; the work may be incomplete.",
    "lost_closed": "An operator closed the lost job.",
    "bad_envelope": "The process was not given what it needs to take the job.",
    "bad_credential": "The process held no valid credential for the job.",
    "fingerprint_mismatch": "The process was connected to another database.",
    "schema_mismatch": "The process expects another version of the tables.",
    "app_not_built": "The application could not be built in the job's process.",
}

STOP_WORDS: dict[StopReason, str] = {
    "shutdown": "shutdown",
    "stall": "no progress",
    "run_timeout": "run budget",
    "cancel": "cancel",
    "force": "forced stop",
}


def nobody_takes(
    job_type: str, revision: str | None, supervisors: Sequence[Supervisor]
) -> str | None:
    """Why a waiting job is taken by none of these supervisors; None where one takes it."""
    if not supervisors:
        return "No supervisor is running, so nobody takes this job: run `flask jobs work`."
    takers = [one for one in supervisors if one.drain_requested_at is None]
    if not takers:
        return (
            "The supervisors that are running take no more jobs: they are drained, or about to "
            "end. Resume one on their page, or run another `flask jobs work`."
        )
    takers = [one for one in takers if one.takes_type(job_type)]
    if not takers:
        return f"No supervisor that is running takes jobs of the type {job_type}."
    if any(one.takes_revision(revision) for one in takers):
        return None
    others = ", ".join(sorted({one.revision or "none" for one in takers}))
    return (
        f"The job was made for revision {revision}, and the supervisors that are running have "
        f"{others}. Requeued, it runs under the revision of the application as it is now."
    )


def duration(seconds: float) -> str:
    """A duration as people read it: 850 ms, 12.3 s, 2 min 10 s, 1 h 04 min, 3 d 4 h."""
    seconds = max(0.0, seconds)
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    days, hours = whole // 86400, whole % 86400 // 3600
    return f"{days} d {hours} h" if hours else f"{days} d"


def size(count: int) -> str:
    """Bytes as people read them: 512 B, 3.1 MB."""
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.5 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{round(amount)} {units[0]}" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds from one time to another; never negative."""
    if start is None or end is None:
        return None
    return max(0.0, (end - start).total_seconds())


def sentence(job: Job, now: datetime, attempt: Attempt | None = None) -> str:
    """Where the job stands, in one plain sentence."""
    ran = between(job.started_at, job.finished_at or now)
    for_time = f" after {duration(ran)}" if ran is not None else ""
    match job.status:
        case "queued":
            return _waiting(job, now)
        case "running":
            return f"Running for {duration(ran or 0)}{_where(attempt)}."
        case "cancel_requested":
            return f"Asked to stop; running for {duration(ran or 0)}{_where(attempt)}."
        case "succeeded":
            return f"Finished{for_time}."
        case "cancelled":
            forced = ", its process was ended" if job.error_reason_code == "cancel_forced" else ""
            return f"Cancelled{for_time or ' before it started'}{forced}."
        case "interrupted":
            return f"Interrupted{for_time}. {_because(job)}"
        case "lost":
            return (
                f"Lost{for_time}: its process cannot be seen any more and may still be working. "
                "The lock is kept until the job is requeued."
            )
        case _:
            return f"Failed{for_time}. {_because(job)}"


def _waiting(job: Job, now: datetime) -> str:
    waiting = duration(between(job.queued_at, now) or 0)
    if job.not_before is not None and job.not_before > now:
        return f"Not due yet; waiting for {waiting}."
    return f"Waiting to start for {waiting}."


def _because(job: Job) -> str:
    return REASON_WORDS.get(job.error_reason_code or "", "No reason was recorded.")


def _where(attempt: Attempt | None) -> str:
    if attempt is None or attempt.worker.host is None:
        return ""
    return f" on {attempt.worker.host}, pid {attempt.worker.pid}"


def signal_name(number: int) -> str:
    """`9` as `signal 9 (SIGKILL)`."""
    try:
        return f"signal {number} ({signals.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def autopsy(evidence: dict[str, Any], *, asked: bool = False) -> str:
    """How the process ended, from its parent's report: a clause without a full stop.

    `asked`: somebody wanted the job to stop, which explains a signal.
    """
    if evidence.get("spawn_error"):
        return f"the command could not be started: {evidence['spawn_error']}"
    number, code, wall = (evidence.get(key) for key in ("signal", "exit_code", "wall"))
    if number:
        text = f"killed by {signal_name(int(number))}"
    elif code is not None:
        text = f"exited {code} without a result"
    else:
        return "the process is gone, and nobody saw how it ended"
    if isinstance(wall, (int, float)):
        # Not how long the job ran: the process built the application first.
        text += f", {duration(wall)} after the process began"
    if evidence.get("peak_rss"):
        text += f", peak memory {size(int(evidence['peak_rss']))}"
    killed = evidence.get("killed")
    text += _of_memory(evidence, asked=asked or bool(killed))
    if killed:
        text += f"; stopped by its parent ({str(killed).replace('_', ' ')})"
    return text


def _of_memory(evidence: dict[str, Any], *, asked: bool) -> str:
    """What is said of memory: claimed where the cgroup counted it, else at most suggested."""
    if evidence.get("oom"):
        return ", out of memory"
    unknown = "oom" in evidence and evidence["oom"] is None
    unexplained = evidence.get("signal") == signals.SIGKILL and not asked
    return ", perhaps for lack of memory" if unknown and unexplained else ""


_OWN_LINE = re.compile(r"Started \S+, attempt \d+: process \d+(?: on .+)?\.|Succeeded|Cancelled")


def last_line(outcome: Outcome) -> NewLine:
    """The runner's own last line, written with the status it tells of."""
    status = JobStatus(outcome.status)
    level = {
        JobStatus.FAILED: "error",
        JobStatus.INTERRUPTED: "warning",
        JobStatus.LOST: "warning",
    }.get(status, "info")
    text = STATUS_WORDS[status]
    if outcome.reason:
        text += f" ({outcome.reason})"
    told = (outcome.error_message or "").strip().split("\n", 1)[0][:500]
    if told and status != JobStatus.CANCELLED:
        text += f": {told}"
    return NewLine(message=text, level=level)


def is_runners_own(message: str) -> bool:
    """Whether a line reads like the runner's first or last one of an attempt."""
    return bool(_OWN_LINE.fullmatch(message))
