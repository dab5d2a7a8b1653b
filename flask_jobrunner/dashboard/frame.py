"""What stands around every page: its name, where one can go, and whether the clocks agree."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from flask import request, url_for

from flask_jobrunner.model.words import duration
from flask_jobrunner.runtime import Runtime

from .access import Viewer
from .format import thousands

SKEW_SHOWN = 30.0
"""Seconds by which two clocks may differ before a page says so."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """One place to go; `count` is shown beside it, as an alert where `alert` says why."""

    id: str
    text: str
    url: str
    current: bool
    count: str = ""
    alert: str = ""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What the template around a page reads."""

    title: str
    environment: str
    links: list[Link] = field(default_factory=list)
    skew: str = ""


def frame(runtime: Runtime, who: Viewer | None) -> Frame:
    """The frame for this viewer; without one, as on an error page, nothing is asked or read."""
    title, environment = runtime.config.title or "Jobs", runtime.config.environment or ""
    if who is None:
        return Frame(title=title, environment=environment)
    links = []
    if who.may("view_list"):
        # Without a name of its own the way home is called Jobs already.
        links += [_link("list", "Jobs", ".index")] if runtime.config.title else []
        links.append(_link("types", "Types", ".types"))
    if not who.may("view_supervisors"):
        # What is not told is not read either; clocks are for those who run the servers.
        return Frame(title=title, environment=environment, links=links)
    pulse = runtime.supervisors.pulse(runtime.supervisor_silence, who.scope)
    none = "None is running, and jobs wait for one" if pulse.waits and not pulse.alive else ""
    links.append(_link("supervisors", "Supervisors", ".supervisors", thousands(pulse.alive), none))
    return Frame(title=title, environment=environment, links=links, skew=_skew(pulse.now))


def _link(identity: str, text: str, endpoint: str, count: str = "", alert: str = "") -> Link:
    url = url_for(endpoint)
    current = url == request.script_root + request.path
    return Link(
        id=f"jr-to-{identity}", text=text, url=url, current=current, count=count, alert=alert
    )


def _skew(database: datetime) -> str:
    ahead = (database - datetime.now(UTC)).total_seconds()
    if abs(ahead) < SKEW_SHOWN:
        return ""
    way = "ahead of" if ahead > 0 else "behind"
    return f"The database's clock is {duration(abs(ahead))} {way} this server's"
