"""Deeds: a GET asks, a POST acts and leads back to the job."""

from __future__ import annotations

from uuid import UUID

from flask import Response, request
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.caller import cancel as cancelling
from flask_jobrunner.caller import requeue as requeueing
from flask_jobrunner.caller.requeue import other_revision
from flask_jobrunner.model import words
from flask_jobrunner.model.errors import ConfigError, UnknownJobType
from flask_jobrunner.model.records import Job
from flask_jobrunner.model.statuses import REQUEUEABLE

from . import audit, query
from .access import Viewer, viewer
from .lock_holder import holder_of
from .problems import conflict
from .question import Question, ask, lead_back


def cancel(uuid: UUID) -> Response | BaseResponse:
    """Ask, then cancel."""
    query.local_path("next")  # refused before anything is done, not behind it
    who = viewer()
    owned = who.find(str(uuid))
    who.demand("cancel", owned)
    if request.method == "POST":
        result = cancelling.cancel(who.runtime, owned.job.uuid, actor=who.actor())
        if result.status == "not_found" or result.job is None:
            raise NotFound
        if result.status == "already_terminal":
            return too_late(result.job)
        if result.status != "already_cancel_requested":  # somebody's second click is no deed
            audit.done(who, "cancel", job=result.job)
        return lead_back(owned.job, "cancel")
    if owned.job.is_terminal:
        return too_late(owned.job)
    return ask(cancel_question(owned.job), owned.job)


def requeue(uuid: UUID) -> Response | BaseResponse:
    """Ask, then run the same job once more."""
    query.local_path("next")  # the same
    who = viewer()
    owned = who.find(str(uuid))
    who.demand("requeue", owned)
    lost, confirmed = owned.job.status == "lost", "confirm_lost" in request.form
    if request.method == "POST" and (confirmed or not lost):
        return _requeue(who, owned.job, confirmed=confirmed)
    if not (lost or owned.job.status in REQUEUEABLE or other_revision(who.runtime, owned)):
        return _not_requeueable(owned.job)
    refused = "Tick the box first." if request.method == "POST" else ""
    return ask(requeue_question(owned.job, refused), owned.job)


def cancel_question(job: Job) -> Question:
    """What cancelling means for a job of this status."""
    effects = ["The job is asked to stop at its next checkpoint. Work already done is kept."]
    if job.status == "queued":
        effects = ["The job has not started. It ends as cancelled at once, and nothing is run."]
    if job.status == "cancel_requested":
        effects = ["The job was asked to stop already. Asking again changes nothing."]
    return Question(
        title="Cancel this job?",
        effects=effects,
        yes="Cancel job",
        no="Let it wait" if job.status == "queued" else "Keep running",
        css="jr-danger",
    )


def requeue_question(job: Job, refused: str) -> Question:
    """What running a job again means."""
    effects = ["The job runs again as a new attempt with the same input."]
    if job.status == "queued":
        effects = ["The job waits on, for supervisors that run the application as it is now."]
    if job.status == "lost":
        effects.append(
            "Its process cannot be seen, and may still be working. If it is, the work is done "
            "twice, and both may write to the same place."
        )
    return Question(
        title="Requeue this job?",
        effects=effects,
        yes="Requeue job",
        no="Leave it as it is",
        css="jr-primary",
        checkbox="I have checked that its process is gone" if job.status == "lost" else "",
        refused=refused,
    )


def _requeue(who: Viewer, job: Job, *, confirmed: bool) -> Response | BaseResponse:
    try:
        # Not waiting: the page that follows shows the start as it happens.
        result = requeueing.requeue(
            who.runtime, job.uuid, actor=who.actor(), confirm_lost=confirmed, wait=False
        )
    except (UnknownJobType, ConfigError) as error:
        return conflict("This app cannot run this job", str(error), job)
    match result.status:
        case "not_found":
            raise NotFound
        case "not_requeueable":
            return _not_requeueable(result.job or job)
        case "already_active":
            text = "Another job holds its lock key; this one can run again when that has ended."
            return conflict("The lock is taken", text, job, holder_of(who, job.lock_key))
        case _:
            audit.done(who, "requeue", job=result.job or job)
            return lead_back(job, "requeue")


def too_late(job: Job) -> Response:
    """The answer to a cancel of what has ended."""
    return conflict(
        "The job finished before it could be cancelled",
        f"Its state is {words.STATUS_WORDS[job.status].lower()} now, and nothing was changed.",
        job,
    )


def _not_requeueable(job: Job) -> Response:
    return conflict(
        "This job cannot be requeued now",
        f"Its state is {words.STATUS_WORDS[job.status].lower()}. A job can be requeued once it "
        "has failed, was cancelled or interrupted, or is lost.",
        job,
    )
