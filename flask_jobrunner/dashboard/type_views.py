"""The pages of the job types."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import Response
from werkzeug.exceptions import NotFound

from flask_jobrunner.protocol.encoding import clean_text

from . import preferences
from .access import viewer
from .rendering import page
from .types_page import NEWEST, STRIP, type_page, type_rows


def types() -> Response:
    """All of them."""
    who = viewer()
    who.demand("view_list")
    now = datetime.now(UTC)
    return page("types.html", now=now, rows=type_rows(who, now), newest=NEWEST, strip=STRIP)


def one_type(job_type: str) -> Response:
    """One of them, with plots and with what went wrong."""
    who = viewer()
    who.demand("view_list")
    now = datetime.now(UTC)
    shown = type_page(who, clean_text(job_type), now, preferences.zone(who.runtime))
    if shown is None:
        raise NotFound(description="There is no job of this type.")
    return page("type.html", now=now, page=shown)
