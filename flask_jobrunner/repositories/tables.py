"""Our tables, as Core tables on the host's metadata, so that its migrations see them.

Stock column types only: a generated migration imports nothing of ours. Times are BIGINT
microseconds UTC, because DATETIME drops or rounds fractions on some databases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import conv
from sqlalchemy.types import TypeEngine

from flask_jobrunner.model.statuses import ACTIVE, JobStatus

SCHEMA_VERSION = 1

_IDENTITY_PARTS = ("instance", "incarnation", "host", "boot", "pid_ns")
# MySQL and MariaDB compare without case by default ('Ann' would be shown what is ann's), and a
# database may have a character set that cannot hold what a job prints.
_MYSQL = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value for dialect in ("mysql", "mariadb") for name, value in _MYSQL.items()
}
_NEVER_AGAIN: dict[str, Any] = {"sqlite_autoincrement": True}
"""For ids that are given away, of jobs and fences: SQLite alone uses those of removed rows anew."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The seven tables of one metadata and prefix."""

    jobs: Table
    attempts: Table
    logs: Table
    events: Table
    files: Table
    supervisors: Table
    meta: Table

    def all(self) -> list[Table]:
        """Parents before children."""
        return [
            self.jobs,
            self.attempts,
            self.logs,
            self.events,
            self.files,
            self.supervisors,
            self.meta,
        ]


def _big() -> TypeEngine[int]:
    # Only INTEGER PRIMARY KEY numbers itself on SQLite.
    return BigInteger().with_variant(Integer(), "sqlite")


def _long() -> TypeEngine[str]:
    # TEXT ends at 64 KB on MySQL and MariaDB.
    return Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def _time(name: str, *, nullable: bool = True) -> Column[int]:
    return Column(name, BigInteger(), nullable=nullable)


def _identity(who: str) -> list[Column[str] | Column[int]]:
    return [
        *(Column(f"{who}_{part}", String(255)) for part in _IDENTITY_PARTS),
        Column(f"{who}_pid", BigInteger()),
        Column(f"{who}_ticks", BigInteger()),
    ]


def _in(column: str, values: frozenset[JobStatus] | list[JobStatus]) -> str:
    return f"{column} IN ({', '.join(repr(str(value)) for value in sorted(values))})"


def build_tables(metadata: MetaData, prefix: str) -> Tables:
    """Our tables on `metadata`; the same ones again if they are there already.

    Names are final (`conv`): a naming convention of the host's would otherwise change them.
    """
    schema = f"{metadata.schema}." if metadata.schema else ""
    if f"{schema}{prefix}jobs" not in metadata.tables:
        _jobs(metadata, prefix)
        _attempts(metadata, prefix)
        _logs(metadata, prefix)
        _events(metadata, prefix)
        _files(metadata, prefix)
        _supervisors(metadata, prefix)
        _meta(metadata, prefix)
    names = ("jobs", "attempts", "logs", "events", "files", "supervisors", "meta")
    return Tables(**{name: metadata.tables[f"{schema}{prefix}{name}"] for name in names})


def _jobs(metadata: MetaData, prefix: str) -> None:
    active = _in("status", ACTIVE)
    Table(
        f"{prefix}jobs",
        metadata,
        Column("id", _big(), primary_key=True, autoincrement=True),
        Column("job_uuid", String(36), nullable=False),
        Column("job_type", String(128), nullable=False),
        Column("status", String(32), nullable=False),
        Column("claim_mode", String(16), nullable=False),
        Column("title", String(255)),
        Column("owner", String(191)),
        Column("reference", String(191)),
        Column("actor", String(191)),
        Column("lock_key", String(191)),
        Column("active_lock_key", String(64)),
        Column("priority", Integer(), nullable=False),
        _time("not_before"),
        Column("payload_json", _long()),
        Column("result_json", _long()),
        Column("base_url", String(1024)),
        Column("stop_reason", String(16)),
        Column("revision", String(255)),
        Column("config_digest", String(64)),
        Column("row_version", BigInteger(), nullable=False),
        Column("attempt", Integer(), nullable=False),
        Column("unstarted_deaths", Integer(), nullable=False),
        Column("restarts", Integer(), nullable=False),
        Column("error_class", String(255)),
        Column("error_reason_code", String(120)),
        Column("error_message", _long()),
        Column("current_step_key", String(128)),
        Column("current_step_label", String(255)),
        Column("step_index", Integer()),
        Column("step_total", Integer()),
        Column("progress_done", BigInteger()),
        Column("progress_total", BigInteger()),
        Column("warning_count", Integer(), nullable=False),
        Column("error_count", Integer(), nullable=False),
        Column("log_seq", BigInteger(), nullable=False),
        Column("log_bytes", BigInteger(), nullable=False),
        Column("worker_token_hash", String(64)),
        Column("worker_token", String(64)),
        *_identity("worker"),
        *_identity("parent"),
        Column("dispatch_by", String(64)),
        _time("lease_until"),
        _time("claim_deadline"),
        _time("queue_deadline"),
        _time("run_deadline"),
        _time("dispatch_until"),
        _time("created_at", nullable=False),
        _time("queued_at", nullable=False),
        _time("launched_at"),
        _time("started_at"),
        _time("handler_started_at"),
        _time("cancel_requested_at"),
        _time("heartbeat_at"),
        _time("finished_at"),
        _time("updated_at", nullable=False),
        UniqueConstraint("job_uuid", name=conv(f"uq_{prefix}jobs_uuid")),
        UniqueConstraint("active_lock_key", name=conv(f"uq_{prefix}jobs_active_lock")),
        CheckConstraint(_in("status", list(JobStatus)), name=conv(f"ck_{prefix}jobs_status")),
        CheckConstraint("claim_mode IN ('token', 'trusted')", name=conv(f"ck_{prefix}jobs_mode")),
        CheckConstraint(
            f"({active} AND (lock_key IS NULL) = (active_lock_key IS NULL))"
            f" OR status = 'lost' OR (NOT ({active}) AND active_lock_key IS NULL)",
            name=conv(f"ck_{prefix}jobs_lock"),
        ),
        CheckConstraint(
            f"({active}) = (finished_at IS NULL)", name=conv(f"ck_{prefix}jobs_finished")
        ),
        # No index on lease, heartbeat or progress: they change with every beat.
        Index(conv(f"ix_{prefix}jobs_status"), "status", "id"),
        Index(conv(f"ix_{prefix}jobs_type"), "job_type", "status", "id"),
        Index(conv(f"ix_{prefix}jobs_owner"), "owner", "status", "id"),
        Index(conv(f"ix_{prefix}jobs_reference"), "reference", "id"),
        Index(conv(f"ix_{prefix}jobs_lock"), "lock_key", "id"),
        Index(
            conv(f"ix_{prefix}jobs_dispatch"),
            "claim_mode",
            "status",
            "priority",
            "created_at",
            "id",
        ),
        Index(conv(f"ix_{prefix}jobs_finished"), "finished_at", "id"),
        **_NEVER_AGAIN,
        **_OPTIONS,
    )


def _job_id(prefix: str, *, nullable: bool = False) -> Column[int]:
    return Column("job_id", _big(), ForeignKey(f"{prefix}jobs.id"), nullable=nullable)


def _attempts(metadata: MetaData, prefix: str) -> None:
    Table(
        f"{prefix}attempts",
        metadata,
        Column("id", _big(), primary_key=True, autoincrement=True),
        _job_id(prefix),
        Column("attempt", Integer(), nullable=False),
        Column("mode", String(16), nullable=False),
        Column("revision", String(255)),
        Column("worker_token", String(64), nullable=False),
        *_identity("worker"),
        *_identity("parent"),
        _time("claimed_at", nullable=False),
        _time("handler_started_at"),
        _time("ended_at"),
        _time("reported_at"),
        Column("end_status", String(32)),
        Column("end_reason", String(120)),
        Column("exit_code", Integer()),
        Column("signal", Integer()),
        Column("peak_rss", BigInteger()),
        Column("cpu_us", BigInteger()),
        Column("error_class", String(255)),
        Column("error_message", _long()),
        Column("traceback", _long()),
        Column("result_json", _long()),
        Column("evidence_json", _long()),
        UniqueConstraint("job_id", "attempt", name=conv(f"uq_{prefix}attempts_job")),
        **_NEVER_AGAIN,
        **_OPTIONS,
    )


def _logs(metadata: MetaData, prefix: str) -> None:
    Table(
        f"{prefix}logs",
        metadata,
        Column("id", _big(), primary_key=True, autoincrement=True),
        _job_id(prefix),
        Column("seq", BigInteger(), nullable=False),
        Column("attempt", Integer(), nullable=False),
        _time("created_at", nullable=False),
        Column("level", String(32), nullable=False),
        Column("stream", String(32), nullable=False),
        Column("step_key", String(128)),
        Column("message", _long(), nullable=False),
        Column("context_json", _long()),
        UniqueConstraint("job_id", "seq", name=conv(f"uq_{prefix}logs_seq")),
        **_OPTIONS,
    )


def _events(metadata: MetaData, prefix: str) -> None:
    Table(
        f"{prefix}events",
        metadata,
        Column("id", _big(), primary_key=True, autoincrement=True),
        _job_id(prefix, nullable=True),
        Column("action", String(64), nullable=False),
        Column("actor", String(191)),
        Column("from_status", String(32)),
        Column("to_status", String(32)),
        Column("attempt", Integer()),
        Column("reason", String(120)),
        Column("evidence_json", _long()),
        _time("at", nullable=False),
        # As a constraint: MariaDB refuses to drop an index that a foreign key needs, and a
        # generated downgrade drops indexes before tables.
        UniqueConstraint("job_id", "id", name=conv(f"uq_{prefix}events_job")),
        **_OPTIONS,
    )


def _files(metadata: MetaData, prefix: str) -> None:
    Table(
        f"{prefix}files",
        metadata,
        Column("id", _big(), primary_key=True, autoincrement=True),
        _job_id(prefix),
        Column("attempt", Integer(), nullable=False),
        Column("kind", String(16), nullable=False),
        Column("name", String(191), nullable=False),
        Column("path", String(255)),
        Column("size", BigInteger()),
        Column("content_type", String(255)),
        Column("sha256", String(64)),
        _time("created_at", nullable=False),
        _time("expires_at"),
        _time("expired_at"),
        UniqueConstraint("job_id", "kind", "attempt", "name", name=conv(f"uq_{prefix}files_name")),
        CheckConstraint("kind IN ('input', 'output')", name=conv(f"ck_{prefix}files_kind")),
        Index(conv(f"ix_{prefix}files_expiry"), "expires_at", "id"),
        **_OPTIONS,
    )


def _supervisors(metadata: MetaData, prefix: str) -> None:
    Table(
        f"{prefix}supervisors",
        metadata,
        Column("id", _big(), primary_key=True, autoincrement=True),
        Column("supervisor_uuid", String(36), nullable=False),
        *_identity("worker"),
        Column("types_json", _long()),
        Column("slots", Integer(), nullable=False),
        Column("standby", Integer(), nullable=False),
        Column("revision", String(255)),
        Column("version", String(64)),
        _time("started_at", nullable=False),
        _time("heartbeat_at", nullable=False),
        _time("drain_requested_at"),
        UniqueConstraint("supervisor_uuid", name=conv(f"uq_{prefix}supervisors_uuid")),
        Index(conv(f"ix_{prefix}supervisors_heartbeat"), "heartbeat_at"),
        **_OPTIONS,
    )


def _meta(metadata: MetaData, prefix: str) -> None:
    Table(
        f"{prefix}meta",
        metadata,
        Column("id", SmallInteger(), primary_key=True, autoincrement=False),
        Column("schema_version", Integer(), nullable=False),
        Column("fingerprint", String(64), nullable=False),
        _time("created_at", nullable=False),
        CheckConstraint("id = 1", name=conv(f"ck_{prefix}meta_one")),
        **_OPTIONS,
    )
