"""How one supervisor is, in a word, a colour, and what will happen next."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Literal

from flask_jobrunner.model.records import Supervisor
from flask_jobrunner.repositories.drains import SupervisorEvent
from flask_jobrunner.repositories.supervisors import FORGOTTEN_AFTER
from flask_jobrunner.runtime import Runtime, package_version

from .format import visible, whole_duration

LATE_BEATS = 2.5
"""Heartbeats without a sign of life after which one is late."""
TOLD = {"drain": "Drain asked", "resume": "Resumed", "shutdown": "Told to end"}

Deed = Literal["drain", "resume"]


@dataclass(frozen=True, kw_only=True)
class State:
    """`tone` is the status whose colours and shape it wears; `deed` what may be done now."""

    tone: str
    word: str
    remarks: list[str] = field(default_factory=list)
    deed: Deed | None = None
    takes: bool = False
    """Whether it takes jobs, as far as one knows."""


def state_of(
    runtime: Runtime, one: Supervisor, told: SupervisorEvent | None, used: int, zone: tzinfo
) -> State:
    """The state, from its row and what it was told last; `used` slots are taken."""
    silence = runtime.supervisor_silence
    silent = f"It has given no sign of life for {whole_duration(coarse(one.silent_for))}."
    deed: Deed | None = "drain"
    if one.drain_requested_at is not None:
        # By a signal it was told to end, and nobody takes that back.
        deed = "resume" if told is not None and told.action == "drain" else None
    if one.silent_for > silence:
        gone = clock(one.heartbeat_at + timedelta(seconds=FORGOTTEN_AFTER), zone)
        remark = (
            f"{silent} Jobs that it started finish by themselves; those whose processes are gone "
            "as well are found by the sweep. Another supervisor removes this entry, at "
            f"{gone} at the latest."
        )
        return State(tone="lost", word="Not seen", remarks=[remark])
    if one.silent_for > LATE_BEATS * runtime.config.heartbeat:
        gone = clock(one.heartbeat_at + timedelta(seconds=silence), zone)
        remark = f"{silent} At {gone} it counts as gone; its jobs go on."
        takes = deed == "drain"
        return State(tone="cancel_requested", word="Late", remarks=[remark], deed=deed, takes=takes)
    differs = _differences(runtime, one)
    if deed == "resume":
        word, what = ("Draining", " What runs goes on.") if used else ("Drained", "")
        remark = f"It takes no more jobs until it is resumed.{what}"
        return State(tone="cancel_requested", word=word, remarks=[remark, *differs], deed=deed)
    if deed is None:
        remarks = ["It takes no more jobs, and ends when those that run have ended."]
        return State(tone="cancel_requested", word="Stopping", remarks=remarks)
    return State(tone="running", word="Working", remarks=differs, deed=deed, takes=True)


def was_told(told: SupervisorEvent, zone: tzinfo) -> str:
    """`Drain asked by ann, 12:05:10 UTC`."""
    by = f" by {visible(told.actor)}" if told.actor else ""
    return f"{TOLD.get(told.action, told.action)}{by}, {clock(told.at, zone)}"


def coarse(seconds: float) -> float:
    """So that the page does not change with every poll."""
    step = 5 if seconds < 60 else 60
    return seconds // step * step


def clock(at: datetime, zone: tzinfo) -> str:
    """A time of these days, zone included."""
    return f"{at.astimezone(zone):%H:%M:%S %Z}"


def _differences(runtime: Runtime, one: Supervisor) -> list[str]:
    """Where it is not what the pages come from: a deploy that is under way, or half done."""
    found = []
    if one.revision != runtime.config.revision:
        here = runtime.config.revision
        found.append(f"This web process has {f'the revision {here}' if here else 'no revision'}.")
    if one.version and one.version != package_version():
        found.append(f"This web process has flask_jobrunner {package_version()}.")
    return [visible(" ".join(found))] if found else []
