"""The page that asks before something is done."""

from __future__ import annotations

from dataclasses import dataclass, field

from flask import Response, current_app, url_for

from flask_jobrunner.model.records import Job

from . import csrf
from .rendering import page


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


def ask(question: Question, job: Job | None = None, *, back: str | None = None) -> Response:
    """The page; 422 where the answer to it was refused. `back`: where a no leads."""
    return page(
        "confirm.html",
        422 if question.refused else 200,
        job=job,
        ask=question,
        back=back or url_for(".detail", uuid=job.uuid if job else ""),
        fields=[*question.fields, *csrf.fields(current_app)],
    )
