"""The queue: who takes jobs from it, and what nobody takes."""

from __future__ import annotations

from collections.abc import Iterator

from flask_jobrunner.cli.output import count
from flask_jobrunner.model.errors import JobRunnerError
from flask_jobrunner.model.records import Supervisor
from flask_jobrunner.model.words import duration, nobody_takes
from flask_jobrunner.repositories.supervisors import WAITING_CAP, Waiting
from flask_jobrunner.runtime import Runtime

from .findings import Finding, fine, warning


def examine(runtime: Runtime) -> Iterator[Finding]:
    """Supervisors that are seen, and jobs that wait for others."""
    try:
        runtime.meta.ensure()
        if not runtime.meta.differences():
            yield from _examine(runtime.supervisors.all(), runtime.supervisors.waiting(), runtime)
    except JobRunnerError:
        return  # the database has its own findings


def _examine(
    found: list[Supervisor], waiting: list[Waiting], runtime: Runtime
) -> Iterator[Finding]:
    alive = [one for one in found if one.silent_for <= runtime.supervisor_silence]
    yield from (_silent(one) for one in found if one not in alive)
    if alive:
        yield fine("Supervisors", "; ".join(_told(one) for one in alive) + ".")
    elif not waiting:
        yield fine("Supervisors", "None is running. Only jobs of the queue need one.")
    untaken: dict[str, list[Waiting]] = {}
    for group in waiting:
        reason = nobody_takes(group.job_type, group.revision, alive)
        if reason is not None:
            untaken.setdefault(reason, []).append(group)
    yield from (_untaken(groups, reason) for reason, groups in untaken.items())


def _untaken(groups: list[Waiting], reason: str) -> Finding:
    """What waits for one reason is one finding."""
    since = min(group.since for group in groups)
    return warning(
        "Queue",
        f"{', '.join(_number(group) for group in groups)} waiting since "
        f"{since:%Y-%m-%d %H:%M} UTC. {reason}",
        "Run `flask jobs work` with the code, and for the types, that they need.",
    )


def _number(group: Waiting) -> str:
    more = "at least " if group.number >= WAITING_CAP else ""
    revision = f" (revision {group.revision})" if group.revision else ""
    return f"{more}{count(group.number, 'job')} of {group.job_type}{revision}"


def _told(one: Supervisor) -> str:
    types = f" for {', '.join(one.types)}" if one.types else ""
    revision = f", revision {one.revision}" if one.revision else ""
    slots = count(one.slots, "slot")
    drained = ", takes no more jobs" if one.drain_requested_at is not None else ""
    return f"{one.process.host}, process {one.process.pid}: {slots}{types}{revision}{drained}"


def _silent(one: Supervisor) -> Finding:
    return warning(
        "Supervisors",
        f"Process {one.process.pid} on {one.process.host} has given no sign of life for "
        f"{duration(one.silent_for)}, and has not said that it ended.",
        "See whether it still runs. The next supervisor on that host removes its entry.",
    )
