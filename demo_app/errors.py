"""Pages for what went wrong outside the dashboard, which has its own."""

from __future__ import annotations

from flask import Flask, current_app, render_template
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.wrappers import Response

from flask_jobrunner import InvalidPayload, JobRunnerError


def init_app(app: Flask) -> None:
    """Answer errors with a page of the demo's own."""
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(JobRunnerError, _no_job)


def _http_error(error: HTTPException) -> tuple[str, int] | Response:
    if error.code is None or error.response is not None:
        return error.get_response()
    heading, message = error.name, error.description or ""
    if isinstance(error, NotFound):
        heading, message = "No such page", "There is nothing at this address, or not any more."
    return _page(heading, message), error.code


def _no_job(error: JobRunnerError) -> tuple[str, int]:
    """A call of the job runner that refused its input, or found the database busy or away."""
    current_app.logger.warning("%s: %s", type(error).__name__, error)
    status = 422 if isinstance(error, InvalidPayload) else 503
    return _page("That did not work", str(error)), status


def _page(heading: str, message: str) -> str:
    return render_template("demo_app/error.html", heading=heading, message=message)
