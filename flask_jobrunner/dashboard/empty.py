"""What the list says while there is nothing to list: how to get the first job."""

from __future__ import annotations

from dataclasses import dataclass

from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.runtime import Runtime

NAMED = 5
"""Registered job types that are named."""


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """Lines to copy, with the host's own names in them."""

    register: str
    start: str
    known: str


def snippet(runtime: Runtime, app_name: str) -> Snippet:
    """The first job of this app, in code."""
    types = list(runtime.handlers)
    job_type = types[0] if types else "reports.build"
    try:
        app = runtime.app_path()
    except ConfigError:
        app = app_name
    return Snippet(
        register=(
            '@jobs.handler("reports.build", title="Build report")\n'
            "def build(ctx):\n"
            '    for row in ctx.track(rows, "Rows"):\n'
            "        ...\n"
            '    return {"rows": len(rows)}'
        ),
        start=f'jobs.start("{job_type}")\n\n$ flask --app {app} jobs start {job_type}',
        known=_known(types),
    )


def _known(types: list[str]) -> str:
    if not types:
        return "No handler is registered in this app so far."
    more = f" and {len(types) - NAMED} more" if len(types) > NAMED else ""
    return f"Registered in this app: {', '.join(types[:NAMED])}{more}."
