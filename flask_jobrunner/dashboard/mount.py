"""Where the dashboard is mounted, and what it offers to the application's own templates."""

from __future__ import annotations

from typing import Any

from flask import current_app, has_request_context, request

from .blueprint import NAME, is_mount


def endpoint(view: str) -> str:
    """The whole name of a view: in the mount that answers, on other pages in the app's first."""
    here = request.blueprint if has_request_context() else None
    if here is not None and is_mount(current_app, here):
        return f"{here}.{view}"
    mounts = (name for name in current_app.blueprints if is_mount(current_app, name))
    return f"{next(mounts, NAME)}.{view}"


def offer_widgets() -> dict[str, Any]:
    """Let the application's templates, and the macros they import, call the widgets.

    When a page is rendered, not at set-up: asking for the environment makes it, and what the
    application says of it later would no longer count.
    """
    from . import embed, mine

    offered = current_app.jinja_env.globals
    offered.setdefault("jobrunner_head", embed.head)
    offered.setdefault("jobrunner_job", embed.job_widget)
    offered.setdefault("jobrunner_mine", mine.my_jobs)
    return {}
