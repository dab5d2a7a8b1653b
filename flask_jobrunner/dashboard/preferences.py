"""What one browser prefers: its theme, time zone, how often pages ask, and how logs look.

In a cookie that scripts do not read and that our own addresses alone are sent: pages come out of
the server as they should look, so nothing flashes and nothing needs a script.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from datetime import tzinfo
from urllib.parse import parse_qsl, urlencode
from zoneinfo import ZoneInfo

from flask import request, url_for
from werkzeug.wrappers import Response

from flask_jobrunner.runtime import Runtime

COOKIE = "jobrunner_prefs"
KEPT_FOR = 365 * 86400
THEMES = {"auto": "As the system has it", "light": "Light", "dark": "Dark"}
POLLS = {"auto": "As soon as it is worth it", "5": "Every 5 s", "15": "Every 15 s", "off": "Never"}
WRAPS = {"on": "Wrap long lines", "off": "Let long lines run on"}
_CHOICES = {"theme": THEMES, "poll": POLLS, "wrap": WRAPS}


@dataclass(frozen=True, kw_only=True)
class Preferences:
    """One browser's. An empty zone is the application's own."""

    theme: str = "auto"
    zone: str = ""
    poll: str = "auto"
    wrap: str = "on"


def current() -> Preferences:
    """Those of this request; what a cookie has made up is the default."""
    return read(dict(parse_qsl(request.cookies.get(COOKIE, "")[:500])))[0]


def read(values: dict[str, str]) -> tuple[Preferences, list[str]]:
    """(preferences, names of the values that are none)."""
    found, wrong = Preferences(), []
    for name in (field.name for field in fields(Preferences)):
        value = values.get(name, "").strip()
        if not value:
            continue
        right = value in _CHOICES[name] if name in _CHOICES else _zone(value) is not None
        if right:
            found = replace(found, **{name: value})
        else:
            wrong.append(name)
    return found, wrong


def keep(response: Response, preferences: Preferences) -> None:
    """Have the browser send them from now on."""
    response.set_cookie(
        COOKIE,
        urlencode(asdict(preferences)),
        max_age=KEPT_FOR,
        path=url_for(".index"),
        secure=request.is_secure,
        httponly=True,
        samesite="Lax",
    )


def zone(runtime: Runtime) -> tzinfo:
    """The zone in which this browser is shown times."""
    return _zone(current().zone) or runtime.config.timezone


def _zone(name: str) -> tzinfo | None:
    # A name is a path to a file for zoneinfo, which itself refuses to leave its folder.
    try:
        return ZoneInfo(name) if name and len(name) < 64 else None
    except (ValueError, OSError, KeyError):
        return None
