"""What the page of the supervisors shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from math import ceil

from flask import request, url_for

from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.model.records import OwnedJob, Supervisor
from flask_jobrunner.model.words import nobody_takes
from flask_jobrunner.repositories.drains import SupervisorEvent
from flask_jobrunner.repositories.supervisors import WAITING_CAP, Waiting
from flask_jobrunner.runtime import Runtime

from . import preferences
from .access import Viewer
from .deeds import Action
from .format import Clock, name, running_for, short, thousands, visible, whole_duration
from .supervisor_state import LATE_BEATS, State, coarse, state_of, was_told

LABELS = {"drain": "Drain", "resume": "Resume"}


@dataclass(frozen=True, kw_only=True)
class JobLink:
    """A job that a supervisor runs. Clocks tick by themselves, and change no tag."""

    name: str
    short: str
    url: str
    since: datetime | None
    clock: Clock = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Card:
    """One supervisor."""

    key: str
    place: str
    state: State
    slots: str
    standby: str
    takes: str
    revision: str
    version: str
    started_at: datetime
    seen: str
    told: str
    oldest_since: datetime | None
    oldest: Clock | None = field(repr=False)
    jobs: list[JobLink]
    action: Action | None


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
    app: str
    drain_timeout: int
    tag: str
    did: str = ""


def supervisor_page(who: Viewer, now: datetime) -> SupervisorPage:
    """The supervisors as this viewer may see them."""
    runtime = who.runtime
    found = runtime.supervisors.all()
    alive = [one for one in found if one.silent_for <= runtime.supervisor_silence]
    running = runtime.supervisors.running([one.uuid for one in found])
    told = runtime.drains.newest([one.uuid for one in found])
    groups = runtime.supervisors.waiting(who.scope)
    zone = preferences.zone(runtime)
    cards = [
        _card(who, one, running.get(one.uuid, []), told.get(one.uuid), groups, now, zone)
        for one in found
    ]
    # Without a card the page says so itself, with the command.
    waiting = [_line(group, alive if cards else None) for group in groups]
    done = told.get(request.args.get("did", ""))
    return SupervisorPage(
        cards=cards,
        waiting=waiting,
        app=_app(runtime),
        drain_timeout=round(runtime.config.drain_timeout),
        tag=hashlib.sha256(repr((cards, waiting)).encode()).hexdigest()[:12],
        did=was_told(done, zone) if done is not None else "",
    )


def _card(
    who: Viewer,
    one: Supervisor,
    running: list[OwnedJob],
    told: SupervisorEvent | None,
    groups: list[Waiting],
    now: datetime,
    zone: tzinfo,
) -> Card:
    shown = [owned for owned in running if who.shows(owned.job)]
    used = len(running) if who.scope is None else len(shown)
    state = state_of(who.runtime, one, told, used, zone)
    waits = [
        group.since
        for group in groups
        if state.takes and one.takes_type(group.job_type) and one.takes_revision(group.revision)
    ]
    oldest = min(waits, default=None)
    return Card(
        key=one.uuid[-12:],
        place=place(one),
        state=state,
        slots=_slots(who, one, len(running)),
        standby=_standby(one.standby if state.takes else 0),
        takes=visible(", ".join(one.types)) or "every type",
        revision=visible(one.revision or ""),
        version=visible(one.version or ""),
        started_at=one.started_at,
        seen=_seen(who.runtime, one),
        told=was_told(told, zone) if told is not None else "",
        oldest_since=oldest,
        oldest=running_for(oldest, now) if oldest is not None else None,
        jobs=[_job(owned, now, who.runtime.config.redact_keys) for owned in shown],
        action=_action(one, state) if who.may("drain") else None,
    )


def place(one: Supervisor) -> str:
    """Where it runs: what people call it by."""
    return visible(f"{one.process.host or 'unknown host'}, process {one.process.pid}")


def _slots(who: Viewer, one: Supervisor, used: int) -> str:
    """Whoever sees the jobs of one owner alone is not told how much others have to do."""
    return f"{used} of {one.slots} used" if who.scope is None else str(one.slots)


def _standby(number: int) -> str:
    """How many processes it keeps ready."""
    if not number:
        return ""
    return "1 process, already built" if number == 1 else f"{number} processes, already built"


def _seen(runtime: Runtime, one: Supervisor) -> str:
    """Not the time itself: a page that says nothing new needs no answer."""
    usual = LATE_BEATS * runtime.config.heartbeat
    if one.silent_for <= usual:
        return f"less than {whole_duration(ceil(usual))} ago"
    return f"{whole_duration(coarse(one.silent_for))} ago"


def _job(owned: OwnedJob, now: datetime, keys: Sequence[str]) -> JobLink:
    since = owned.job.started_at
    return JobLink(
        name=name(owned.job, keys),
        short=short(owned.job.uuid),
        url=url_for(".detail", uuid=owned.job.uuid),
        since=since,
        clock=running_for(since, now) if since is not None else Clock(text="begins"),
    )


def _action(one: Supervisor, state: State) -> Action | None:
    if state.deed is None:
        return None
    resume = "1" if state.deed == "resume" else None
    url = url_for(".drain", supervisor=one.uuid, resume=resume)
    return Action(label=LABELS[state.deed], url=url, css="")


def _line(group: Waiting, alive: list[Supervisor] | None) -> Line:
    more = group.number >= WAITING_CAP
    why = None if alive is None else nobody_takes(group.job_type, group.revision, alive)
    return Line(
        job_type=visible(group.job_type),
        number=f"{thousands(group.number)}{'+' if more else ''}",
        since=group.since,
        revision=visible(group.revision or ""),
        untaken=visible(why or ""),
    )


def _app(runtime: Runtime) -> str:
    """What `flask --app` takes here, for lines to copy."""
    try:
        return runtime.app_path()
    except ConfigError:
        return runtime.app.name
