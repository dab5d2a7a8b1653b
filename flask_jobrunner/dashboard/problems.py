"""Error pages inside the frame: what happened, and the next step."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from flask import Response, current_app, make_response, request, url_for
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from flask_jobrunner.model.errors import DatabaseAway, DatabaseFull
from flask_jobrunner.model.records import Job
from flask_jobrunner.runtime import current_runtime

from .access import AUTHORIZE_EXAMPLE, NoSuchFile, NotAllowed, NotConfigured
from .csrf import CrossOrigin
from .lock_holder import Holder
from .rendering import FRAGMENT_HEADER, page

RETRY_AFTER = 5
"""Seconds after which a page that found the database busy is worth asking for again."""
FRAGMENTS = frozenset({"list_live", "job_live", "supervisors_live", "embed", "mine"})
FOR_PROGRAMS = frozenset({"index_json", "job_json", "supervisors_json", "types_json", "log_ndjson"})


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What an error page says."""

    title: str
    texts: list[str]
    url: str
    link: str = "To the list of jobs"
    job: Job | None = None
    code: str | None = None
    holder: Holder | None = None
    """Of the lock that is in the way."""


def http_problem(error: HTTPException) -> Any:
    """A page for 4xx; a poll gets the status alone, for its script to act on."""
    if is_fragment():
        response = make_response("", error.code or 500)
        response.headers[FRAGMENT_HEADER] = "1"
        return response
    if isinstance(error, NotConfigured):
        return _not_configured(error)
    if is_for_programs():
        return _told_to_programs(error.code or 500, _describe(error))
    response = page("error.html", error.code or 500, problem=_describe(error))
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return response


def database_problem(error: Exception) -> Response:
    """503: nothing was changed, and asking again is right."""
    if is_fragment():
        response = make_response("", 503)
        response.headers[FRAGMENT_HEADER] = "1"
    elif is_for_programs():
        response = _told_to_programs(503, _database(error))
    else:
        response = page("error.html", 503, problem=_database(error))
    response.headers["Retry-After"] = str(RETRY_AFTER)
    return response


def conflict(title: str, text: str, job: Job, holder: Holder | None = None) -> Response:
    """409: the job moved on before the deed could be done."""
    problem = Problem(
        title=title,
        texts=[text],
        job=job,
        url=url_for(".detail", uuid=job.uuid),
        link="To the job",
        holder=holder,
    )
    return page("error.html", 409, problem=problem)


def is_fragment() -> bool:
    """Whether the request is a poll."""
    return _view() in FRAGMENTS


def is_for_programs() -> bool:
    """Whether the request is one that a program makes."""
    return _view() in FOR_PROGRAMS


def _view() -> str:
    return (request.endpoint or "").rpartition(".")[2]


def _told_to_programs(status: int, problem: Problem | None = None) -> Response:
    """Problem details, as RFC 9457 has them."""
    told: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
    }
    if problem is not None:
        told["detail"] = " ".join(text for text in problem.texts if text)
    return Response(json.dumps(told) + "\n", status, mimetype="application/problem+json")


def _describe(error: HTTPException) -> Problem:
    url = url_for(".index")
    if isinstance(error, CrossOrigin):
        return _refused(error.failed, error.advice)
    if type(error).__name__ == "CSRFError":  # the host's Flask-WTF, which need not be there
        return _refused(error.description or "", "Open the form again and repeat the step.")
    if isinstance(error, NotFound) and not isinstance(error, NoSuchFile):
        return Problem(
            title="No such job",
            texts=["This job was deleted, or never existed, or is not one that you may see."],
            url=url,
        )
    titles = {
        400: "This address is not right",
        403: "You may not do this",
        404: "No such file",
        410: "The file is gone",
    }
    problem = Problem(
        title=titles.get(error.code or 0, error.name),
        texts=[error.description or "", *_advice(error.code)],
        url=url,
    )
    if isinstance(error, NotAllowed) and error.action == "view_list":
        # The list would refuse again.
        return _leading_out(problem)
    return problem


def _refused(why: str, advice: str) -> Problem:
    return Problem(
        title="This request was refused",
        texts=["Nothing was changed.", why, advice],
        url=_here(),
        link="Open the form again",
    )


def _here() -> str:
    return request.script_root + request.full_path.rstrip("?")


def _leading_out(problem: Problem) -> Problem:
    return replace(problem, url=f"{request.script_root}/", link=f"Back to {current_app.name}")


def _advice(code: int | None) -> list[str]:
    if code == 403:
        return ["Ask whoever runs this application for the permission."]
    return []


def _database(error: Exception) -> Problem:
    reason = "Others keep it locked right now."
    if isinstance(error, DatabaseFull):
        reason = "It takes no writes right now: its disk is full, or it is read-only."
    elif isinstance(error, DatabaseAway):
        reason = "It cannot be reached right now."
    return Problem(
        title="The database does not answer",
        texts=[f"{reason} Nothing was changed, and jobs that run go on.", "Try again in a moment."],
        url=_here(),
        link="Try again",
    )


def _not_configured(error: NotConfigured) -> Any:
    if not current_app.debug:
        # A visitor learns nothing from it, so the log is where the developer does. Once: anybody
        # can ask for the page as often as he likes.
        runtime = current_runtime()
        if not runtime.told_closed:
            runtime.told_closed = True
            logging.getLogger("flask_jobrunner").warning(
                "The jobs dashboard answers 403 to everybody: no @jobs.authorize says who may see "
                "it. Add it to the application:\n%s",
                AUTHORIZE_EXAMPLE,
            )
        return _told_to_programs(403) if is_for_programs() else error.get_response()
    problem = Problem(
        title="This dashboard is closed",
        texts=["The app has not said who may see it. Add this to it, with a rule of your own:"],
        code=AUTHORIZE_EXAMPLE,
        url=url_for(".index"),
    )
    if is_for_programs():
        return _told_to_programs(403, replace(problem, texts=[*problem.texts, AUTHORIZE_EXAMPLE]))
    return page("error.html", 403, problem=_leading_out(problem))
