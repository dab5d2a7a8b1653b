"""What the page of the supervisors shows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from flask import url_for

from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.model.records import OwnedJob, Supervisor
from flask_jobrunner.model.words import duration, nobody_takes
from flask_jobrunner.repositories.supervisors import WAITING_CAP, Waiting
from flask_jobrunner.runtime import Runtime

from .access import Viewer
from .format import name, short, thousands, visible


@dataclass(frozen=True, kw_only=True)
class JobLink:
    """A job that a supervisor runs."""

    name: str
    short: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Card:
    """One supervisor. `tone` is the status whose colours and shape it wears."""

    key: str
    place: str
    tone: str
    state: str
    remark: str
    slots: str
    standby: str
    takes: str
    revision: str
    version: str
    started_at: datetime
    jobs: list[JobLink]


@dataclass(frozen=True, kw_only=True)
class Line:
    """Jobs of one type and revision that wait."""

    job_type: str
    number: str
    since: datetime
    revision: str
    untaken: str


@dataclass(frozen=True, kw_only=True)
class SupervisorPage:
    """All of it; `tag` changes with what is shown."""

    cards: list[Card]
    waiting: list[Line]
    command: str
    tag: str


def supervisor_page(who: Viewer) -> SupervisorPage:
    """The supervisors as this viewer may see them."""
    runtime = who.runtime
    found = runtime.supervisors.all()
    alive = [one for one in found if one.silent_for <= runtime.supervisor_silence]
    running = runtime.supervisors.running([one.uuid for one in found])
    cards = [_card(who, one, running.get(one.uuid, [])) for one in found]
    waiting = [_line(group, alive) for group in runtime.supervisors.waiting(who.scope)]
    return SupervisorPage(
        cards=cards, waiting=waiting, command=_command(runtime), tag=_tag(cards, waiting)
    )


def _card(who: Viewer, one: Supervisor, running: list[OwnedJob]) -> Card:
    tone, state, remark = _state(who.runtime, one)
    here = who.runtime.config.revision
    if one.revision != here and tone == "running":
        remark = f"This web process has the revision {here or 'none'}."
    seen = [owned for owned in running if who.sees(owned.job) and who.may("view_job", owned)]
    return Card(
        key=one.uuid[-12:],
        place=visible(f"{one.process.host or 'unknown host'}, process {one.process.pid}"),
        tone=tone,
        state=state,
        remark=visible(remark),
        slots=f"{len(running)} of {one.slots} used",
        standby=_standby(one.standby),
        takes=visible(", ".join(one.types)) or "every type",
        revision=visible(one.revision or ""),
        version=visible(one.version or ""),
        started_at=one.started_at,
        jobs=[
            JobLink(
                name=name(owned.job),
                short=short(owned.job.uuid),
                url=url_for(".detail", uuid=owned.job.uuid),
            )
            for owned in seen
        ],
    )


def _standby(number: int) -> str:
    """How many processes it keeps ready."""
    if not number:
        return ""
    return "1 process, already built" if number == 1 else f"{number} processes, already built"


def _state(runtime: Runtime, one: Supervisor) -> tuple[str, str, str]:
    silent = f"It has given no sign of life for {duration(_rounded(one.silent_for))}."
    if one.silent_for > runtime.supervisor_silence:
        return "lost", "Not seen", f"{silent} Its jobs, if any run, finish by themselves."
    if one.silent_for > 2.5 * runtime.config.heartbeat:
        return "cancel_requested", "Late", silent
    if one.drain_requested_at is not None:
        return "cancel_requested", "Stopping", "It takes no more jobs."
    return "running", "Working", ""


def _rounded(seconds: float) -> float:
    """Coarse, so that the page does not change with every poll."""
    step = 5 if seconds < 60 else 60
    return seconds // step * step


def _line(group: Waiting, alive: list[Supervisor]) -> Line:
    more = group.number >= WAITING_CAP
    return Line(
        job_type=visible(group.job_type),
        number=f"{thousands(group.number)}{'+' if more else ''}",
        since=group.since,
        revision=visible(group.revision or ""),
        untaken=visible(nobody_takes(group.job_type, group.revision, alive) or ""),
    )


def _command(runtime: Runtime) -> str:
    try:
        app = runtime.app_path()
    except ConfigError:
        app = runtime.app.name
    return f"flask --app {app} jobs work"


def _tag(cards: list[Card], waiting: list[Line]) -> str:
    return hashlib.sha256(repr((cards, waiting)).encode()).hexdigest()[:12]
