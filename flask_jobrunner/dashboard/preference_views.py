"""The page of the preferences."""

from __future__ import annotations

from zoneinfo import available_timezones

from flask import Response, current_app, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from . import csrf, preferences
from .access import viewer
from .preferences import POLLS, THEMES, WRAPS
from .rendering import page


def prefs() -> Response | BaseResponse:
    """Show them, or keep them in a cookie of this browser."""
    who = viewer()
    who.demand("view_list")
    chosen, wrong = preferences.current(), list[str]()
    if request.method == "POST":
        chosen, wrong = preferences.read(request.form.to_dict())
        if not wrong:
            answer = redirect(url_for(".prefs", did="kept"), 303)
            preferences.keep(answer, chosen)
            return answer
    return page(
        "prefs.html",
        422 if wrong else 200,
        chosen=chosen,
        wrong=wrong,
        kept=request.method == "GET" and request.args.get("did") == "kept",
        choices=[
            ("theme", "Theme", THEMES),
            ("poll", "Pages keep themselves up to date", POLLS),
            ("wrap", "Logs", WRAPS),
        ],
        zones=sorted(available_timezones()),
        own_zone=str(who.runtime.config.timezone),
        csrf_fields=csrf.fields(current_app),
    )
