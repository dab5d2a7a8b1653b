"""Writing down how a child ended, and what that means for its job."""

from __future__ import annotations

from dataclasses import dataclass

from flask_jobrunner.model.errors import LockBusy
from flask_jobrunner.model.statuses import Reason
from flask_jobrunner.model.words import REASON_WORDS
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.report import EndReport, dump_report
from flask_jobrunner.recovery.settle import last_words, settle_report, tell_finished, told_end
from flask_jobrunner.recovery.verdict import is_death
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.shim import deliver

from .dispatch import Handed


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What became of the job. `status` None: the row is gone."""

    status: str | None
    reason: str | None
    attempt: int
    taken: bool
    """Whether the process had taken the job."""
    given_back: bool
    """It had not, though the job was still its own to take."""
    words: str
    """The end of what a process printed that took nothing; secrets are masked."""


def record(runtime: Runtime, handed: Handed, report: EndReport) -> Ending:
    """Put the end into the database; may be repeated. Raises `LockBusy` or `DatabaseAway`."""
    if not settle_report(runtime, report):
        raise LockBusy(f"Job {handed.uuid} changes faster than its end can be recorded.")
    returned = None if report.claimed else give_back(runtime, handed, report)
    job = runtime.jobs.get(handed.id)
    taken = report.claimed or _claimed_by_ours(runtime, handed)
    return Ending(
        status=job.status if job else None,
        reason=job.error_reason_code if job else None,
        attempt=job.attempt if job else handed.attempt,
        taken=taken,
        given_back=returned is not None,
        words="" if taken else last_words(runtime, report),
    )


def _claimed_by_ours(runtime: Runtime, handed: Handed) -> bool:
    """Whether a process of this supervisor has the attempt: its message may have been lost."""
    me = identity.this_process(runtime.config.instance)
    return any(
        one.attempt == handed.attempt and one.parent == me for one in runtime.attempts.of(handed.id)
    )


def give_back(runtime: Runtime, handed: Handed, report: EndReport | None = None) -> str | None:
    """Free the job for others, where it is still reserved for this very process.

    `report` None: no process was started. The status that the job has now, or None.
    """
    died = report is not None and report.booted and is_death(report.evidence())
    poison = REASON_WORDS[Reason.POISON]
    status = runtime.dispatch.give_back(
        handed.id,
        handed.attempt,
        handed.credential_hash,
        died=died,
        message=told_end(runtime, report, poison) if report is not None else poison,
        evidence=report.evidence() if report is not None else None,
    )
    if status == "failed":
        tell_finished(runtime, handed.uuid)
    return status


def keep(runtime: Runtime, report: EndReport) -> bool:
    """Put the report into the spool folder, for a sweep: the database does not take it now."""
    name = f"{report.uuid}.{report.attempt}"
    return deliver.spool(str(runtime.make_spool_dir()), name, dump_report(report))
