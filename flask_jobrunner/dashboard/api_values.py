"""Jobs, files, supervisors and types as programs are told of them, without secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import url_for

from flask_jobrunner.caller.inspect import error_of
from flask_jobrunner.model.records import Job, OwnedJob, Supervisor, plain
from flask_jobrunner.model.runs import Run, figures, grouped_failures
from flask_jobrunner.model.words import nobody_takes
from flask_jobrunner.protocol.encoding import decode_json
from flask_jobrunner.protocol.redact import mask_value
from flask_jobrunner.repositories.drains import SupervisorEvent
from flask_jobrunner.repositories.supervisors import WAITING_CAP, Waiting
from flask_jobrunner.runtime import Runtime

from . import notices, preferences
from .access import Viewer
from .file_list import file_url
from .supervisor_state import state_of

_ERROR = ("error_class", "error_reason_code", "error_message")
NOT_TOLD = frozenset({"id", "payload", *_ERROR})
"""Of a job's fields: numbers in a row would say how many jobs others have; the payload has a
place and a permission of its own, the error a place."""
ONLY_OF_ONE = frozenset(
    {"stop_reason", "priority", "lock_key", "not_before", "handler_started_at", "heartbeat_at"}
)
"""Fields that the list for people does not show either."""


def masked(runtime: Runtime, value: Any) -> Any:
    """A value without what JOBRUNNER_REDACT_KEYS hides."""
    return mask_value(value, runtime.config.redact_keys)


def summary(runtime: Runtime, job: Job) -> dict[str, Any]:
    """A job of the list."""
    told = {name: value for name, value in _fields(job).items() if name not in ONLY_OF_ONE}
    error = error_of(job)
    if error is not None:
        error["message"] = notices.first_line(job) or None
    return _linked(masked(runtime, {**told, "error": error}), job)


def whole(runtime: Runtime, job: Job) -> dict[str, Any]:
    """One job with everything but its values and its log."""
    return _linked(masked(runtime, {**_fields(job), "error": error_of(job)}), job)


def values(runtime: Runtime, owned: OwnedJob) -> dict[str, Any]:
    """What the job was given, and what it returned."""
    told = {"payload": owned.job.payload, "result": decode_json(owned.result_json)}
    return {name: masked(runtime, value) for name, value in told.items()}


def files(who: Viewer, owned: OwnedJob) -> list[dict[str, Any]]:
    """The job's files; `url` where this viewer may download one that is still there."""
    found = [stored.file for stored in who.runtime.files.of(owned.job.id)]
    may = bool(found) and who.may("download", owned)
    return [
        {
            **file.to_dict(),
            "url": file_url(file, owned.job.uuid) if may and file.expired_at is None else None,
        }
        for file in found
    ]


def supervisors(who: Viewer) -> dict[str, Any]:
    """The supervisors and the queue, as this viewer may see them."""
    runtime = who.runtime
    found = runtime.supervisors.all()
    alive = [one for one in found if one.silent_for <= runtime.supervisor_silence]
    uuids = [one.uuid for one in found]
    running, told = runtime.supervisors.running(uuids), runtime.drains.newest(uuids)
    return {
        "supervisors": [
            _supervisor(who, one, running.get(one.uuid, []), told.get(one.uuid)) for one in found
        ],
        "waiting": [_waiting(group, alive) for group in runtime.supervisors.waiting(who.scope)],
    }


def job_type(runtime: Runtime, name: str, runs: Sequence[Run]) -> dict[str, Any]:
    """One type, in figures; durations in seconds."""
    summed = figures(runs)
    return {
        "job_type": name,
        "url": url_for(".type", job_type=name),
        "runs": summed.runs,
        "failures": summed.wrong,
        "failure_rate": summed.failure_rate,
        "wait_p50": summed.wait_p50,
        "wait_p95": summed.wait_p95,
        "run_p50": summed.run_p50,
        "run_p95": summed.run_p95,
        "last_finished_at": plain(runs[0].finished_at) if runs else None,
        "errors": [
            masked(runtime, {"class": kind, "reason_code": code, "number": number})
            for kind, code, number in grouped_failures(runs)
        ],
    }


def _fields(job: Job) -> dict[str, Any]:
    return {name: value for name, value in job.to_dict().items() if name not in NOT_TOLD}


def _linked(told: dict[str, Any], job: Job) -> dict[str, Any]:
    told["url"] = url_for(".detail", uuid=job.uuid)
    told["json_url"] = url_for(".job_json", uuid=job.uuid)
    return told


def _supervisor(
    who: Viewer, one: Supervisor, running: Sequence[OwnedJob], told: SupervisorEvent | None
) -> dict[str, Any]:
    seen = [owned.job for owned in running if who.shows(owned.job)]
    used = len(running) if who.scope is None else len(seen)
    state = state_of(who.runtime, one, told, used, preferences.zone(who.runtime))
    return {
        "uuid": one.uuid,
        "host": one.process.host,
        "pid": one.process.pid,
        "state": state.word.lower().replace(" ", "_"),
        "types": list(one.types),
        "slots": one.slots,
        "standby": one.standby,
        # How much others have to do is no more for who sees his own jobs than these are.
        "slots_used": len(running) if who.scope is None else None,
        "jobs": [url_for(".job_json", uuid=job.uuid) for job in seen],
        "revision": one.revision,
        "version": one.version,
        "started_at": plain(one.started_at),
        "drain_requested_at": plain(one.drain_requested_at),
    }


def _waiting(group: Waiting, alive: list[Supervisor]) -> dict[str, Any]:
    return {
        "job_type": group.job_type,
        "revision": group.revision,
        "number": group.number,
        "more": group.number >= WAITING_CAP,
        "since": plain(group.since),
        "untaken": nobody_takes(group.job_type, group.revision, alive) or None,
    }
