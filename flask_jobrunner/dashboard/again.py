"""Run again: another job of the same type with the same payload."""

from __future__ import annotations

from uuid import UUID

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.caller import again as repeating
from flask_jobrunner.model.errors import ConfigError, InvalidPayload, UnknownJobType
from flask_jobrunner.model.records import Job

from . import audit, deeds
from .access import viewer
from .lock_holder import holder_of
from .problems import conflict
from .question import Question, ask

QUESTION = Question(
    title="Run this again?",
    effects=["A new job of this type begins, with the same input. This one stays as it is."],
    yes="Run again",
    no="Leave it",
    css="jr-primary",
)


def again(uuid: UUID) -> Response | BaseResponse:
    """Ask, then start another job."""
    who = viewer()
    owned = who.find(str(uuid))
    who.demand("start")
    job = owned.job
    if not deeds.is_repeatable(who.runtime, owned):
        return _not_repeatable(job)
    if request.method != "POST":
        return ask(QUESTION, job)
    try:
        result = repeating.again(who.runtime, owned, actor=who.actor())
    except (UnknownJobType, ConfigError, InvalidPayload) as error:
        return conflict("This app cannot run this job again", str(error), job)
    if result.status == "already_active":
        text = "Another job holds its lock key; this one can run again when that has ended."
        return conflict("The lock is taken", text, job, holder_of(who, job.lock_key))
    audit.done(who, "start", job=result.job)
    return redirect(url_for(".detail", uuid=result.job.uuid), 303)


def _not_repeatable(job: Job) -> Response:
    return conflict(
        "This job cannot be run again from here",
        "Only a job that has ended can, and only if its handler was registered with manual=True.",
        job,
    )
