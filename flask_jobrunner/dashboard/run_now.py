"""Run now: a job of a type that people may start, without input."""

from __future__ import annotations

from flask import Response, redirect, request, url_for
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.caller import by_hand as starting
from flask_jobrunner.model.errors import ConfigError, InvalidPayload, UnknownJobType
from flask_jobrunner.runtime import Runtime

from . import audit
from .access import viewer
from .format import visible
from .problems import Problem
from .question import Question, ask
from .rendering import page


def run(job_type: str) -> Response | BaseResponse:
    """Ask, then start it."""
    who = viewer()
    who.demand("start")
    runtime, back = who.runtime, url_for(".type", job_type=job_type)
    if not is_startable(runtime, job_type):
        if job_type not in runtime.handlers:
            raise NotFound(description="There is no job of this type.")
        return _refused("Only a type whose handler says manual=True can be run from here.", back)
    try:
        starting.needs_no_input(runtime, job_type)
        if request.method != "POST":
            return ask(_question(job_type), back=back)
        # Whoever is restricted to one owner's jobs could not see one that is nobody's.
        made = starting.by_hand(runtime, job_type, actor=who.actor(), owner=who.scope)
    except InvalidPayload as error:
        text = f"It needs input, which this page cannot give it. {error}"
        return _refused(text, back)
    except (UnknownJobType, ConfigError) as error:
        return _refused(str(error), back)
    audit.done(who, "start", job=made.job)
    return redirect(url_for(".detail", uuid=made.job.uuid), 303)


def is_startable(runtime: Runtime, job_type: str) -> bool:
    """Whether people may start jobs of this type."""
    try:
        return runtime.handlers.find(job_type).manual
    except UnknownJobType:
        return False


def _question(job_type: str) -> Question:
    return Question(
        title=f"Run {visible(job_type)} now?",
        effects=["A new job of this type begins, without input."],
        yes="Run now",
        no="Leave it",
        css="jr-primary",
    )


def _refused(text: str, back: str) -> Response:
    problem = Problem(
        title="This type cannot be run from here", texts=[text], url=back, link="To the job type"
    )
    return page("error.html", 409, problem=problem)
