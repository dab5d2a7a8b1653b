"""What the log says of one job and its process."""

from __future__ import annotations

from typing import Any

from flask_jobrunner.model.words import REASON_WORDS, autopsy, duration
from flask_jobrunner.protocol.report import EndReport

from .children import Child
from .dispatch import Handed
from .log import Log
from .record import Ending

_LAST_WORDS = 2000


def name(handed: Handed) -> str:
    """`reports.build job 12`, and which attempt where it is not the first."""
    again = f", attempt {handed.attempt}" if handed.attempt > 1 else ""
    return f"{handed.job_type} job {handed.id}{again}"


def fields(handed: Handed) -> dict[str, Any]:
    """The same for programs."""
    return {
        "job": handed.uuid,
        "id": handed.id,
        "type": handed.job_type,
        "attempt": handed.attempt,
    }


def started(log: Log, child: Child) -> None:
    """A process has taken its job."""
    text = f"{name(child.handed)} started, process {child.pid}."
    log.info("started", text, **fields(child.handed), pid=child.pid, stood_by=child.stood_by)


def ending(log: Log, child: Child) -> None:
    """A process is ended by us."""
    text = f"{name(child.handed)} has not stopped: process {child.pid} is ended."
    log.warning("ending", text, **fields(child.handed), pid=child.pid)


def ended(log: Log, handed: Handed, report: EndReport, end: Ending) -> None:
    """A process that had taken its job has ended."""
    how = autopsy(report.evidence())
    if end.status == "queued" and end.attempt > handed.attempt:
        text = f"{name(handed)} waits again, nothing was run: {how}"
    else:
        text = f"{name(handed)} {end.status}" + (f" ({end.reason})" if end.reason else "")
    tell = log.info if end.status in ("succeeded", "cancelled") else log.warning
    tell(
        "ended",
        f"{text}, after {duration(report.wall)}.",
        **fields(handed),
        status=end.status,
        reason=end.reason,
        wall=round(report.wall, 3),
        exit_code=report.exit_code,
        signal=report.signal,
    )


def not_taken(log: Log, handed: Handed, report: EndReport, end: Ending) -> None:
    """A process ended without its job, which was not its own to take any more, or is poison."""
    how = autopsy(report.evidence())
    if end.status == "failed" and end.reason == "poison":
        text = f"{name(handed)} failed (poison): {how}."
        log.error("ended", text, **fields(handed), status="failed", reason="poison")
        return
    text = f"{name(handed)} is {end.status}; its process had not taken it."
    log.info("not_taken", text, **fields(handed), status=end.status, reason=end.reason)


def outdated(log: Log, handed: Handed) -> None:
    """The processes that we start run another revision than we do."""
    text = (
        "The processes that are started here run another revision than this one does. Restart it: "
        "until then it only takes jobs that are made for no revision."
    )
    log.error("outdated", text, **fields(handed))


def why_not_taken(report: EndReport) -> str:
    """Why a process did not take a job that was there to be taken."""
    reason = REASON_WORDS.get(report.refused or "", "")
    if report.killed == "claim_window":
        reason = "A process did not take its job within JOBRUNNER_CLAIM_WINDOW."
    reason = reason or "A process ended before it took its job."
    return f"{reason} It {_past(autopsy(report.evidence()))}."


def last_words(end: Ending) -> str:
    """What a process printed that took nothing: the end of it."""
    return end.words[-_LAST_WORDS:].strip("\n")


def _past(how: str) -> str:
    return how if how.startswith("exited") else f"was {how}" if how.startswith("killed") else how
