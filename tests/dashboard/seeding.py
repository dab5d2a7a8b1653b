"""Rows for pages to show, written without running a job."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, insert, update

from flask_jobrunner.model.statuses import ACTIVE, OWNED
from flask_jobrunner.protocol import identity
from flask_jobrunner.repositories.new_row import hash_lock_key
from flask_jobrunner.runtime import Runtime

SECOND = 1_000_000


def add_job(
    runtime: Runtime,
    status: str = "queued",
    *,
    age: float = 60.0,
    waited: float = 0.4,
    ran: float = 12.3,
    result: Any = None,
    payload: Mapping[str, Any] | None = None,
    traceback: str | None = None,
    report: Mapping[str, Any] | None = None,
    actor: str | None = "anna",
    **columns: Any,
) -> str:
    """A job that was queued `age` seconds ago, with its attempt and events; returns the uuid.

    An active one that ran is owned by this process, so that nobody finds its owner dead.
    """
    now = runtime.database.clock()
    queued = now - round(age * SECOND)
    started = queued + round(waited * SECOND)
    finished = started + round(ran * SECOND)
    begun, owned = status != "queued" and columns.pop("begun", True), status in OWNED
    name = columns.setdefault("job_uuid", _uuid(queued))
    me = identity.this_process()
    lock = columns.get("lock_key")
    values: dict[str, Any] = {
        "job_type": "reports.build",
        "status": status,
        "claim_mode": "token",
        "priority": 0,
        "attempt": 1,
        "row_version": 3,
        "unstarted_deaths": 0,
        "restarts": 0,
        "warning_count": 0,
        "error_count": 0,
        "log_seq": 0,
        "log_bytes": 0,
        "actor": actor,
        "payload_json": None if payload is None else json.dumps(payload),
        "result_json": None if result is None else json.dumps(result),
        "active_lock_key": hash_lock_key(lock) if lock and status in ACTIVE else None,
        "created_at": queued,
        "queued_at": queued,
        "updated_at": now if status in ACTIVE else finished,
        "started_at": started if begun else None,
        "handler_started_at": started if begun else None,
        "heartbeat_at": now if owned else None,
        "lease_until": now + 3600 * SECOND if owned else None,
        "worker_token": "t" * 32 if begun else None,
        "claim_deadline": now + 3600 * SECOND if status == "queued" else None,
        "worker_token_hash": "0" * 64 if status == "queued" else None,
        "finished_at": None if status in ACTIVE else finished,
        **(_worker(me) if begun else {}),
        **columns,
    }

    def unit(connection: Connection) -> None:
        tables = runtime.database.tables
        key = connection.execute(insert(tables.jobs).values(values)).inserted_primary_key
        assert key is not None
        job_id = int(key[0])
        number = values["attempt"]
        events: list[tuple[str, str | None, str, int, str | None, str | None]] = [
            ("start", None, "queued", queued, actor, None)
        ]
        if begun:
            events.append(("claim", "queued", "running", started, None, None))
            _attempt(connection, tables.attempts, job_id, values, traceback, report)
        if status == "cancel_requested":
            events.append(("cancel", "running", status, now - 4 * SECOND, actor, None))
        elif status not in ACTIVE:
            reason = values.get("error_reason_code")
            events.append(("end", "running", status, finished, None, reason))
        for action, before, after, at, who, why in events:
            _event(connection, tables.events, job_id, number, action, before, after, at, who, why)

    runtime.database.run(unit)
    return str(name)


def add_lines(runtime: Runtime, ref: str, lines: Iterable[str | Mapping[str, Any]]) -> None:
    """Append lines to a job's log, one every 100 ms from its start."""
    owned = runtime.jobs.owned(ref)
    assert owned is not None
    begun = owned.job.started_at or owned.job.queued_at
    first = round(begun.timestamp() * SECOND)
    rows = []
    for seq, line in enumerate(lines, start=owned.log_seq + 1):
        told = {"message": line} if isinstance(line, str) else dict(line)
        context = told.pop("context", None)
        rows.append(
            {
                "job_id": owned.job.id,
                "seq": seq,
                "attempt": owned.job.attempt,
                "created_at": first + seq * SECOND // 10,
                "level": "info",
                "stream": "",
                "step_key": None,
                "context_json": None if context is None else json.dumps(context),
            }
            | told
        )

    def unit(connection: Connection) -> None:
        tables = runtime.database.tables
        connection.execute(insert(tables.logs), rows)
        connection.execute(
            update(tables.jobs)
            .where(tables.jobs.c.id == owned.job.id)
            .values(
                log_seq=tables.jobs.c.log_seq + len(rows),
                warning_count=tables.jobs.c.warning_count
                + sum(row["level"] == "warning" for row in rows),
            )
        )

    if rows:
        runtime.database.run(unit)


def change(runtime: Runtime, ref: str, **columns: Any) -> None:
    """Set columns of a job as a transition would: the row's version goes up."""
    jobs = runtime.database.tables.jobs
    runtime.database.run(
        lambda connection: connection.execute(
            update(jobs)
            .where(jobs.c.job_uuid == ref)
            .values(row_version=jobs.c.row_version + 1, **columns)
        )
    )


def add_event(
    runtime: Runtime, ref: str, action: str, *, evidence: Mapping[str, Any] | None = None
) -> None:
    """Something that happens now to the attempt that runs."""
    owned = runtime.jobs.owned(ref)
    assert owned is not None
    events = runtime.database.tables.events
    values = {
        "job_id": owned.job.id,
        "attempt": owned.job.attempt,
        "action": action,
        "from_status": owned.job.status,
        "to_status": owned.job.status,
        "at": runtime.database.clock(),
        "evidence_json": None if evidence is None else json.dumps(evidence),
    }
    runtime.database.run(lambda connection: connection.execute(insert(events).values(values)))


def end(runtime: Runtime, ref: str, status: str = "succeeded", **columns: Any) -> None:
    """End a job, with its attempt's report, as owner and parent would."""
    now = runtime.database.clock()
    owned = runtime.jobs.owned(ref)
    assert owned is not None
    tables = runtime.database.tables

    def unit(connection: Connection) -> None:
        connection.execute(
            update(tables.attempts)
            .where(tables.attempts.c.job_id == owned.job.id)
            .values(ended_at=now, end_status=status, reported_at=now, exit_code=0)
        )
        _event(
            connection,
            tables.events,
            owned.job.id,
            owned.job.attempt,
            "end",
            owned.job.status,
            status,
            now,
            None,
            None,
        )

    runtime.database.run(unit)
    change(
        runtime,
        ref,
        status=status,
        finished_at=now,
        updated_at=now,
        active_lock_key=None,
        **columns,
    )


def _uuid(microseconds: int) -> str:
    head = (microseconds // 1000).to_bytes(6, "big")
    raw = bytearray(head + uuid.uuid4().bytes[6:])
    raw[6] = 0x70 | raw[6] & 0x0F
    return str(uuid.UUID(bytes=bytes(raw)))


def _worker(me: Any) -> dict[str, Any]:
    return {
        "worker_instance": me.instance,
        "worker_incarnation": me.incarnation,
        "worker_host": "web-1",
        "worker_boot": me.boot,
        "worker_pid_ns": me.pid_ns,
        "worker_pid": me.pid,
        "worker_ticks": me.ticks,
    }


def _attempt(
    connection: Connection,
    attempts: Table,
    job_id: int,
    values: Mapping[str, Any],
    traceback: str | None,
    report: Mapping[str, Any] | None,
) -> None:
    ended = values["finished_at"]
    told = {"exit_code": 0, "peak_rss": 61_800_000, "cpu_us": 1_940_000} if ended else {}
    told |= dict(report or {})
    evidence = dict(told) if ended else None
    if evidence is not None:
        evidence["wall"] = (ended - values["started_at"]) / SECOND
    connection.execute(
        insert(attempts).values(
            job_id=job_id,
            attempt=values["attempt"],
            mode="token",
            worker_token=values["worker_token"],
            claimed_at=values["started_at"],
            handler_started_at=values["handler_started_at"],
            ended_at=ended,
            reported_at=ended,
            end_status=values["status"] if ended else None,
            end_reason=values.get("error_reason_code"),
            error_class=values.get("error_class"),
            error_message=values.get("error_message"),
            traceback=traceback,
            evidence_json=None if evidence is None else json.dumps(evidence),
            **told,
            **{k: v for k, v in values.items() if k.startswith("worker_") and k not in _NOT_HERE},
        )
    )


_NOT_HERE = {"worker_token", "worker_token_hash"}


def _event(
    connection: Connection,
    events: Table,
    job_id: int,
    attempt: int,
    action: str,
    before: str | None,
    after: str,
    at: int,
    actor: str | None,
    reason: str | None,
) -> None:
    connection.execute(
        insert(events).values(
            job_id=job_id,
            attempt=attempt,
            action=action,
            from_status=before,
            to_status=after,
            at=at,
            actor=actor,
            reason=reason,
        )
    )
