"""Drain and resume: a GET asks, a POST tells a supervisor to take no more jobs, or to go on."""

from __future__ import annotations

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.model.records import Supervisor
from flask_jobrunner.model.words import duration
from flask_jobrunner.runtime import Runtime

from . import audit
from .access import viewer
from .problems import Problem
from .question import Question, ask
from .rendering import page
from .supervisor_page import place


def drain(supervisor: str) -> Response | BaseResponse:
    """Ask, then tell; with `resume` the other way round."""
    who = viewer()
    who.demand("drain")
    runtime, posted = who.runtime, request.method == "POST"
    one = next((one for one in runtime.supervisors.all() if one.uuid == supervisor), None)
    if one is None or one.silent_for > runtime.supervisor_silence:
        return _told("No such supervisor", "It has ended, or gives no sign of life.", 404)
    resume = "resume" in (request.form if posted else request.args)
    told = runtime.drains.newest([one.uuid]).get(one.uuid)
    if one.drain_requested_at is not None and (told is None or told.action == "shutdown"):
        return _told("This supervisor ends", "It was told to stop, and takes no more jobs.", 409)
    if not posted:
        question = resume_question(one) if resume else drain_question(runtime, one)
        return ask(question, back=url_for(".supervisors"))
    act = runtime.drains.resume if resume else runtime.drains.drain
    if act(one.uuid, one.process, who.actor()):
        audit.done(who, "resume" if resume else "drain", supervisor=one.uuid)
    return redirect(url_for(".supervisors", did=one.uuid), 303)


def drain_question(runtime: Runtime, one: Supervisor) -> Question:
    """What a drain means."""
    soon = duration(runtime.config.heartbeat)
    return Question(
        title="Drain this supervisor?",
        effects=[
            f"{place(one)}.",
            "It takes no more jobs; those that run go on. It stays, idle, until it is resumed.",
            f"It hears of this with its next sign of life, within about {soon}.",
        ],
        yes="Drain supervisor",
        no="Let it work",
        css="jr-danger",
    )


def resume_question(one: Supervisor) -> Question:
    """What taking that back means."""
    return Question(
        title="Resume this supervisor?",
        effects=[f"{place(one)}.", "It takes jobs again."],
        yes="Resume supervisor",
        no="Leave it drained",
        css="jr-primary",
        fields=[("resume", "1")],
    )


def _told(title: str, text: str, status: int) -> Response:
    url = url_for(".supervisors")
    problem = Problem(title=title, texts=[text], url=url, link="To the supervisors")
    return page("error.html", status, problem=problem)
