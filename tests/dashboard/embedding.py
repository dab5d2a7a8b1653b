"""A page of the application's own with widgets on it, and the polls of their script."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from flask import Flask, render_template_string, request

from tests.dashboard.hosts import Host

MISSING = "01a22706-15d6-7a3d-b858-606442022120"
PAGE = """\
{% from "flask_jobrunner/embed.html" import jobs_head, job_widget, my_jobs %}
<!doctype html><head>{{ jobs_head() }}</head><h1>Report</h1>
{{ job_widget(uuid) }}
<h2>Mine</h2>{{ my_jobs() }}"""
WIDGET = {"X-Jobrunner-Widget": "1", "Sec-Fetch-Site": "same-origin"}


def with_page(template: str = PAGE) -> Callable[[Flask], None]:
    """A page of the host's own with the widgets on it; who looks is in a header."""

    def add(app: Flask) -> None:
        @app.get("/report/<uuid>")
        def report(uuid: str) -> str:
            return render_template_string(template, uuid=uuid)

    return add


def shown(host: Host, uuid: str, **options: Any) -> str:
    """The host's page."""
    answer = host.client().get(f"/report/{uuid}", **options)
    assert answer.status_code == 200
    return str(answer.text)


def ask(host: Host, path: str, **headers: str) -> Any:
    """A poll, as the script sends it."""
    return host.client().get(path, headers={**WIDGET, **headers})


def poll_url(body: str, number: int = 0) -> str:
    """Where the widget says that it asks next."""
    return html.unescape(re.findall(r'data-jr-poll="([^"]+)"', body)[number])


def two_people(host: Host) -> None:
    """A hook each, as an application with accounts has them."""
    host.jobs.scope(lambda: request.headers.get("X-User", "nobody"))
    host.jobs.actor(lambda: request.headers.get("X-User"))
