"""A forced stop: only the intent is recorded here; who is on the job's host ends its process."""

from __future__ import annotations

from uuid import UUID

from flask import Response, redirect, request, url_for
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.caller import cancel as cancelling
from flask_jobrunner.model.records import Job
from flask_jobrunner.model.words import STATUS_WORDS

from . import audit, deeds
from .access import viewer
from .problems import conflict
from .question import Question, ask


def force_stop(uuid: UUID) -> Response | BaseResponse:
    """Ask, then have the process ended, or close a lost job."""
    who = viewer()
    owned = who.find(str(uuid))
    who.demand("force_stop", owned)
    job = owned.job
    if not deeds.may_be_forced(who.runtime, owned):
        return _not_now(job, offered=who.runtime.config.force_stop)
    lost, confirmed = job.status == "lost", "confirm_lost" in request.form
    if request.method == "POST" and (confirmed or not lost):
        result = cancelling.cancel(who.runtime, job.uuid, actor=who.actor(), force=True)
        if result.job is None:
            raise NotFound
        if result.status == "already_terminal":
            return _not_now(result.job, offered=True)
        if result.status != "already_cancel_requested":
            audit.done(who, "force_stop", job=result.job)
        return redirect(url_for(".detail", uuid=uuid, did="force_stop"), 303)
    refused = "Tick the box first." if request.method == "POST" else ""
    return ask(_close_question(refused) if lost else _stop_question(), job)


def _stop_question() -> Question:
    return Question(
        title="Force this job to stop?",
        effects=[
            "The process is killed. Cleanup code does not run; data may be left half-written."
        ],
        yes="Force stop",
        no="Let it run",
        css="jr-danger",
    )


def _close_question(refused: str) -> Question:
    return Question(
        title="Close this job?",
        effects=[
            "The job ends as cancelled, and its lock is free for another one.",
            "Its process cannot be seen, and may still be working.",
            "If it is, another job with the same lock key may run beside it.",
        ],
        yes="Close job",
        no="Leave it as it is",
        css="jr-danger",
        checkbox="I have checked that its process is gone",
        refused=refused,
    )


def _not_now(job: Job, *, offered: bool) -> Response:
    if not offered:
        text = "The application does not offer it here; `flask jobs cancel --force` does."
        return conflict("A job cannot be forced to stop from this page", text, job)
    return conflict(
        "This job cannot be forced to stop now",
        f"Its state is {STATUS_WORDS[job.status].lower()}. A job can be forced once it was asked "
        "to stop, had the time to do so, and goes on.",
        job,
    )
