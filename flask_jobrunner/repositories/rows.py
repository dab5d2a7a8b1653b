"""Rows to records, and the pieces of SQL that several repositories share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    RowMapping,
    Select,
    Table,
    insert,
    select,
)

from flask_jobrunner.model.records import (
    Attempt,
    Event,
    Identity,
    Job,
    LogLine,
    NewLine,
    OwnedJob,
)
from flask_jobrunner.model.statuses import ACTIVE, OWNED, JobStatus
from flask_jobrunner.protocol.encoding import decode_json

from .database import Database

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS = 1_000_000
WORKER_PARTS = ("instance", "incarnation", "host", "boot", "pid_ns", "pid", "ticks")


def as_time(microseconds: int | None) -> datetime | None:
    """A stored time as an aware datetime."""
    if microseconds is None:
        return None
    return _EPOCH + timedelta(microseconds=microseconds)


def as_known_time(microseconds: int) -> datetime:
    """A stored time that is always there."""
    return _EPOCH + timedelta(microseconds=microseconds)


def span(seconds: float) -> int:
    """Seconds as the microseconds that are stored."""
    return round(seconds * MICROSECONDS)


def same(column: ColumnElement[Any], value: str | None) -> ColumnElement[bool]:
    """Whether a column is `value`, where None is equal to None."""
    return column.is_(None) if value is None else column == value


def select_jobs(database: Database) -> Select[Any]:
    """All columns of jobs and the database's clock, as `to_job` and `to_owned` want them."""
    return select(database.tables.jobs, database.now().label("now_us"))


def to_job(row: RowMapping) -> Job:
    """The public record."""
    status = JobStatus(row["status"])
    lease = row["lease_until"]
    direct = {name: row[name] for name in _DIRECT}
    times = {name: as_time(row[name]) for name in _TIMES}
    return Job(
        uuid=row["job_uuid"],
        status=cast(Any, str(status)),
        is_active=status in ACTIVE,
        is_terminal=status not in ACTIVE,
        is_stale=status in OWNED and lease is not None and lease < row["now_us"],
        payload=decode_json(row["payload_json"]),
        **direct,
        **cast(dict[str, Any], times),
    )


_DIRECT = (
    "id",
    "job_type",
    "title",
    "stop_reason",
    "attempt",
    "priority",
    "owner",
    "reference",
    "actor",
    "lock_key",
    "current_step_key",
    "current_step_label",
    "step_index",
    "step_total",
    "progress_done",
    "progress_total",
    "warning_count",
    "error_count",
    "error_class",
    "error_reason_code",
    "error_message",
)
_TIMES = (
    "created_at",
    "queued_at",
    "not_before",
    "started_at",
    "handler_started_at",
    "heartbeat_at",
    "finished_at",
    "updated_at",
)


def to_identity(row: RowMapping, who: str) -> Identity:
    """The worker's or the parent's identity."""
    return Identity(**{part: row[f"{who}_{part}"] for part in WORKER_PARTS})


def identity_values(identity: Identity, who: str) -> dict[str, Any]:
    """The columns of an identity."""
    return {f"{who}_{part}": getattr(identity, part) for part in WORKER_PARTS}


def to_owned(row: RowMapping) -> OwnedJob:
    """The record with the columns that decide who may move the job."""
    return OwnedJob(
        job=to_job(row),
        claim_mode=row["claim_mode"],
        has_credential=row["worker_token_hash"] is not None,
        worker_token=row["worker_token"],
        worker=to_identity(row, "worker"),
        parent=to_identity(row, "parent"),
        lease_until=row["lease_until"],
        claim_deadline=row["claim_deadline"],
        queue_deadline=row["queue_deadline"],
        run_deadline=row["run_deadline"],
        heartbeat=row["heartbeat_at"],
        now=int(row["now_us"]),
        revision=row["revision"],
        config_digest=row["config_digest"],
        row_version=row["row_version"],
        log_seq=row["log_seq"],
        base_url=row["base_url"],
        result_json=row["result_json"],
        payload_json=row["payload_json"],
        dispatch_by=row["dispatch_by"],
        dispatch_until=row["dispatch_until"],
        cancel_requested_at=row["cancel_requested_at"],
        unstarted_deaths=row["unstarted_deaths"],
        log_bytes=row["log_bytes"],
    )


def to_line(row: RowMapping) -> LogLine:
    """One stored line."""
    return LogLine(
        seq=row["seq"],
        attempt=row["attempt"],
        created_at=as_known_time(row["created_at"]),
        level=row["level"],
        stream=row["stream"],
        step_key=row["step_key"],
        message=row["message"],
        context=decode_json(row["context_json"]),
    )


def to_event(row: RowMapping) -> Event:
    """One event."""
    return Event(
        action=row["action"],
        actor=row["actor"],
        from_status=row["from_status"],
        to_status=row["to_status"],
        attempt=row["attempt"],
        reason=row["reason"],
        evidence=decode_json(row["evidence_json"]),
        at=as_known_time(row["at"]),
        id=row["id"],
    )


def to_attempt(row: RowMapping) -> Attempt:
    """One attempt."""
    direct = (
        "id",
        "attempt",
        "mode",
        "revision",
        "end_status",
        "end_reason",
        "exit_code",
        "signal",
        "peak_rss",
        "cpu_us",
        "error_class",
        "error_message",
        "traceback",
    )
    return Attempt(
        worker=to_identity(row, "worker"),
        parent=to_identity(row, "parent"),
        claimed_at=as_known_time(row["claimed_at"]),
        handler_started_at=as_time(row["handler_started_at"]),
        ended_at=as_time(row["ended_at"]),
        evidence=decode_json(row["evidence_json"]),
        **{name: row[name] for name in direct},
    )


def add_event(
    connection: Connection,
    database: Database,
    *,
    job_id: int | None,
    action: str,
    attempt: int | None,
    from_status: str | None = None,
    to_status: str | None = None,
    actor: str | None = None,
    reason: str | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> None:
    """Append an event inside the transaction that makes it true."""
    connection.execute(
        insert(database.tables.events).values(
            job_id=job_id,
            action=action,
            actor=actor,
            from_status=from_status,
            to_status=to_status,
            attempt=attempt,
            reason=reason,
            evidence_json=json.dumps(evidence, default=str) if evidence else None,
            at=database.now(),
        )
    )


def add_lines(
    connection: Connection,
    database: Database,
    *,
    job_id: int,
    attempt: int,
    after_seq: int,
    lines: Sequence[NewLine],
) -> None:
    """Insert lines with the sequence numbers that the job row was moved on to before."""
    if not lines:
        return
    now = database.clock()
    # Written without the compiler's work on each row: most of a busy job's time would go there.
    connection.exec_driver_sql(
        _line_insert(database.tables.logs, connection.dialect),
        [
            (job_id, seq, attempt, now if at is None else at, level, stream, step, message, context)
            for seq, (message, level, stream, step, context, at) in enumerate(lines, after_seq + 1)
        ],
    )


_LINE_COLUMNS = (
    "job_id",
    "seq",
    "attempt",
    "created_at",
    "level",
    "stream",
    "step_key",
    "message",
    "context_json",
)


def _line_insert(logs: Table, dialect: Dialect) -> str:
    quoted = dialect.identifier_preparer
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    names = ", ".join(quoted.quote(name) for name in _LINE_COLUMNS)
    marks = ", ".join([mark] * len(_LINE_COLUMNS))
    return f"INSERT INTO {quoted.format_table(logs)} ({names}) VALUES ({marks})"  # noqa: S608


def line_counters(jobs: Table, lines: Sequence[NewLine]) -> dict[str, ColumnElement[int]]:
    """What the job row gains by `lines`; `log_seq` moves by their number."""
    levels = [line.level for line in lines]
    counters = {
        "log_seq": len(lines),
        "log_bytes": len("".join([line.message for line in lines]).encode("utf-8", "replace")),
        "warning_count": levels.count("warning"),
        "error_count": levels.count("error"),
    }
    return {name: jobs.c[name] + gain for name, gain in counters.items() if gain}


_OF_AN_ATTEMPT = (
    "stop_reason",
    "error_class",
    "error_reason_code",
    "error_message",
    "result_json",
    "current_step_key",
    "current_step_label",
    "step_index",
    "step_total",
    "progress_done",
    "progress_total",
    "worker_token",
    "lease_until",
    "run_deadline",
    "dispatch_by",
    "dispatch_until",
    "started_at",
    "handler_started_at",
    "cancel_requested_at",
    "heartbeat_at",
    "finished_at",
    "launched_at",
)


def clean_slate() -> dict[str, Any]:
    """What a queued row has of an attempt: nothing."""
    slate: dict[str, Any] = dict.fromkeys(_OF_AN_ATTEMPT)
    for who in ("worker", "parent"):
        slate.update({f"{who}_{part}": None for part in WORKER_PARTS})
    return slate | {"warning_count": 0, "error_count": 0}


def ended(database: Database, status: str) -> dict[str, Any]:
    """What every terminal row has: a finish, no credential, no deadline, and, but lost, no lock."""
    values: dict[str, Any] = {
        "status": status,
        "finished_at": database.now(),
        "worker_token_hash": None,
        "claim_deadline": None,
        "queue_deadline": None,
        "dispatch_by": None,
        "dispatch_until": None,
    }
    return values if status == JobStatus.LOST else values | {"active_lock_key": None}
