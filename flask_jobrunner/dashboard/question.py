"""The page that asks before something is done."""

from __future__ import annotations

from dataclasses import dataclass, field

from flask import Response, current_app, redirect, url_for
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.model.records import Job

from . import csrf, query
from .rendering import fragment, is_widget, nothing_new, page


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a confirm page asks. `fields` come back with the answer."""

    title: str
    effects: list[str]
    yes: str
    no: str
    css: str
    checkbox: str = ""
    refused: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)


def ask(question: Question, job: Job | None = None, *, back: str = "") -> Response:
    """The page, or a widget's part of it; 422 where the answer to it was refused.

    `back` is where a no leads, unless the address says where it was asked from.
    """
    back_url = back_to(job) if job is not None else query.local_path("next") or back
    fields = [*question.fields, *csrf.fields(current_app)]
    if is_widget():
        return fragment("_embed_ask.html", ask=question, csrf_fields=fields, back_url=back_url)
    status = 422 if question.refused else 200
    return page("confirm.html", status, job=job, ask=question, fields=fields, back_url=back_url)


def lead_back(job: Job, did: str) -> Response | BaseResponse:
    """The answer to a deed that was done; a widget stays where it is."""
    return nothing_new() if is_widget() else redirect(back_to(job, did=did), 303)


def back_to(job: Job, did: str | None = None) -> str:
    """Where who asked came from: a page of the application's own, or the job's."""
    return query.local_path("next") or url_for(".detail", uuid=job.uuid, did=did)
