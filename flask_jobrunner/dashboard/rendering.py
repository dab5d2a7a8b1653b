"""Templates in an environment of our own, derived from the host's.

The host may have autoescape off, other delimiters, or undefined names that pass silently;
none of that may reach our pages. Its globals, filters and template overrides still do.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from flask import Flask, Response, current_app, make_response, request, url_for
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from flask_jobrunner.model.records import Job
from flask_jobrunner.model.words import STATUS_WORDS
from flask_jobrunner.runtime import current_runtime, package_version

from . import access, preferences
from . import format as formatting
from . import frame as framing
from .mount import endpoint

TEMPLATES = "jobrunner_templates"
FRAGMENT_HEADER = "X-Jobrunner-Fragment"
AS_OF_HEADER = "X-Jobrunner-As-Of"
"""Milliseconds since 1970 and the same as text: a page without news is as fresh as one with."""
WIDGET_HEADER = "X-Jobrunner-Widget"
OOB = Markup(' hx-swap-oob="true"')
HTMX_CONFIG = json.dumps(
    {
        "allowEval": False,
        "allowScriptTags": False,
        "includeIndicatorStyles": False,
        "selfRequestsOnly": True,
        "historyCacheSize": 0,
        "defaultSwapStyle": "outerHTML",
        "timeout": 10000,
        "ignoreTitle": True,
    },
    separators=(",", ":"),
)
STATIC = Path(__file__).parent.parent / "static"


def page(template: str, status: int = 200, **context: Any) -> Response:
    """A whole page."""
    # A page about an error asks the host nothing: its answer may be what went wrong.
    who = access.viewer() if status < 400 else None
    links = {
        "frame": framing.frame(current_runtime(), who),
        "supervisors_url": who and who.may("view_supervisors") and url_for(".supervisors"),
        "prefs_url": who and who.may("view_list") and url_for(".prefs"),
    }
    return make_response(render(template, **links, **context), status)


def fragment(template: str, **context: Any) -> Response:
    """A piece of a page for a poll, with the header that tells it from a login page."""
    now = context.setdefault("now", datetime.now(UTC))
    return _dated(make_response(render(template, **context)), now)


def is_widget() -> bool:
    """Whether a widget on a page of the application's own asks, and not a browser's bar."""
    return WIDGET_HEADER in request.headers


def piece(template: str, **context: Any) -> Markup:
    """A piece for a page of the application's own, with everything in it escaped already."""
    return Markup(render(template, **context))  # noqa: S704 - our templates escape


def nothing_new() -> Response:
    """The answer to a poll with nothing to show."""
    return _dated(make_response("", 204), datetime.now(UTC))


def _dated(response: Response, now: datetime) -> Response:
    runtime = current_runtime()
    as_of = formatting.when(now, preferences.zone(runtime)).striptags()
    response.headers[FRAGMENT_HEADER] = "1"
    response.headers[AS_OF_HEADER] = f"{formatting.epoch_ms(now)} {as_of}"
    return response


def render(template: str, **context: Any) -> str:
    """The text of a template, in `now` (the time of reading) and the configured zone."""
    runtime = current_runtime()
    app = runtime.app
    environment: Environment | None = app.extensions.get(TEMPLATES)
    if environment is None:
        environment = app.extensions[TEMPLATES] = make_environment(app)
    now = context.pop("now", None) or datetime.now(UTC)
    zone = preferences.zone(runtime)
    values = {
        "asset": asset,
        "authorize_example": access.AUTHORIZE_EXAMPLE,
        "here": request.script_root + request.full_path.rstrip("?"),
        "home_name": app.name,
        "home_url": f"{request.script_root}/",
        "htmx_config": HTMX_CONFIG,
        "nonce": nonce,
        "now": now,
        "oob": Markup(""),
        "preferences": preferences.current(),
        "statuses": list(STATUS_WORDS),
        "open_for_development": access.open_for_development(),
        "version": package_version(),
        "zone": now.astimezone(zone).tzname(),
        "when": partial(formatting.when, zone=zone),
    }
    return environment.get_template(f"flask_jobrunner/{template}").render(values | context)


def make_environment(app: Flask) -> Environment:
    """The host's environment with our own rules for escaping, syntax and missing names."""
    environment = app.jinja_env.overlay(
        block_start_string="{%",
        block_end_string="%}",
        variable_start_string="{{",
        variable_end_string="}}",
        comment_start_string="{#",
        comment_end_string="#}",
        line_statement_prefix=None,
        line_comment_prefix=None,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_shown,
    )
    # An overlay shares these with the host, who must not find our filters among its own.
    environment.globals = dict(environment.globals)
    environment.filters = environment.filters | {
        "chunk_size": formatting.chunk_size,
        "epoch_ms": formatting.epoch_ms,
        "iso": formatting.iso,
        "name": _name,
        "coded": formatting.coded,
        "short": formatting.short,
        "thousands": formatting.thousands,
        "word": lambda status: STATUS_WORDS[status],
    }
    return environment


def _name(job: Job) -> str:
    return formatting.name(job, current_runtime().config.redact_keys)


def _shown(value: Any) -> Any:
    """What an expression comes to: nothing that a job or a host wrote is obeyed by a browser.

    Here, for all templates at once, since each place that had to think of it could forget it.
    """
    return formatting.visible(value) if isinstance(value, str) and not _is_html(value) else value


def _is_html(value: str) -> bool:
    return hasattr(value, "__html__")


def asset(filename: str) -> str:
    """The address of one of our files; it changes with the content."""
    return url_for(endpoint("static"), filename=filename, v=_digest(filename))


def nonce(given: str | None = None) -> Markup:
    """The attribute that a policy of the host's may ask of scripts and style sheets.

    Its value is what the host's own templates get: Flask-Talisman and others call that `csp_nonce`.
    """
    if given is None:
        make = current_app.jinja_env.globals.get("csp_nonce")
        given = make() if callable(make) else None
    return Markup(' nonce="{}"').format(given) if given else Markup("")


@lru_cache(maxsize=32)
def _digest(filename: str) -> str:
    return hashlib.sha256((STATIC / filename).read_bytes()).hexdigest()[:12]
