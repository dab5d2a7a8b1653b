"""The facts beside a job, label by label; what is not set is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from flask_jobrunner.model import words
from flask_jobrunner.model.records import Attempt, OwnedJob

from .format import Clock, masked, moment, running_for, thousands, visible
from .lock_holder import Holder
from .usual import expected_end, usually_takes


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One labelled value."""

    label: str
    text: str = ""
    clock: Clock | None = None
    code: bool = False
    link: Holder | None = None


def facts(
    owned: OwnedJob,
    attempt: Attempt | None,
    now: datetime,
    zone: tzinfo,
    usual: float | None = None,
    *,
    keys: Sequence[str],
    kept_until: datetime | None = None,
    log_kept_until: datetime | None = None,
    holder: Holder | None = None,
) -> list[Fact]:
    """The facts, in the order in which they matter."""
    job = owned.job
    told = [
        Fact(label="Started by", text=masked("actor", job.actor, keys)),
        Fact(label="Owner", text=masked("owner", job.owner, keys)),
        Fact(label="Reference", text=masked("reference", job.reference, keys)),
        Fact(label="Lock key", text=masked("lock_key", job.lock_key, keys), code=True),
        Fact(label="Lock is held by", link=holder),
        Fact(label="Priority", text=str(job.priority) if job.priority else ""),
        Fact(label="Not before", text=_not_before(owned, now, zone)),
        Fact(label="Attempt", text=str(job.attempt)),
        _wait(owned, now),
        _run(owned, now),
        Fact(label="Usually takes", text=usually_takes(usual)),
        Fact(label="Expected end", text=expected_end(job, usual, now, zone)),
        Fact(label="Warnings", text=_count(job.warning_count)),
        Fact(label="Errors", text=_count(job.error_count)),
        Fact(label="Worker", text=_worker(attempt)),
        Fact(label="Revision", text=owned.revision or "", code=True),
        Fact(label="Kept until", text=_at(kept_until, now, zone)),
        Fact(label="Log kept until", text=_at(log_kept_until, now, zone)),
        Fact(label="Reason", text=job.error_reason_code or "", code=True),
    ]
    shown = [fact for fact in told if fact.text or fact.clock or fact.link]
    return [replace(fact, text=visible(fact.text)) for fact in shown]


def _not_before(owned: OwnedJob, now: datetime, zone: tzinfo) -> str:
    return _at(owned.job.not_before if owned.job.status == "queued" else None, now, zone)


def _at(time: datetime | None, now: datetime, zone: tzinfo) -> str:
    return "" if time is None else moment(time, zone, now)


def _wait(owned: OwnedJob, now: datetime) -> Fact:
    job = owned.job
    if job.started_at is None and job.is_active:
        return Fact(label="Waiting", clock=running_for(job.queued_at, now))
    waited = words.between(job.queued_at, job.started_at or job.finished_at)
    return Fact(label="Waited", text="" if waited is None else words.duration(waited))


def _run(owned: OwnedJob, now: datetime) -> Fact:
    job = owned.job
    if job.started_at is None:
        return Fact(label="Ran")
    if job.finished_at is None:
        return Fact(label="Running", clock=running_for(job.started_at, now))
    ran = words.between(job.started_at, job.finished_at) or 0
    return Fact(label="Ran", text=words.duration(ran))


def _count(number: int) -> str:
    return f"{thousands(number)} in the log" if number else ""


def _worker(attempt: Attempt | None) -> str:
    if attempt is None or attempt.worker.pid is None:
        return ""
    host = f"{attempt.worker.host}, " if attempt.worker.host else ""
    return f"{host}pid {attempt.worker.pid}"
