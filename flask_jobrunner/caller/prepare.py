"""Everything that is checked before a row exists, so that bad input loses nothing."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import has_request_context, request

from flask_jobrunner.handlers import Handler
from flask_jobrunner.model.errors import ConfigError, InvalidPayload
from flask_jobrunner.model.records import NewJob
from flask_jobrunner.model.statuses import ClaimMode
from flask_jobrunner.protocol.checks import is_seconds
from flask_jobrunner.protocol.encoding import (
    NotEncodable,
    clean_text,
    decode_strict,
    encode_json,
    safe_repr,
)
from flask_jobrunner.protocol.identity import uuid7
from flask_jobrunner.repositories.opening import IN_TESTS, ONE_CONNECTION
from flask_jobrunner.repositories.place import network_filesystem
from flask_jobrunner.runtime import Runtime

TITLE_MAX_BYTES = 255
KEY_MAX_BYTES = 191
PRIORITY_MAX = 1_000_000_000


def prepare(
    runtime: Runtime,
    handler: Handler,
    payload: Any,
    *,
    lock_key: str | None,
    title: str | None,
    owner: str | None,
    reference: str | None,
    actor: str | None,
    claim_mode: ClaimMode = "token",
    credential_hash: str | None = None,
    claim_window: float | None = None,
    priority: int = 0,
    not_before: datetime | None = None,
) -> NewJob:
    """The row to be, checked and encoded once. Raises `InvalidPayload` with the fault's place."""
    return NewJob(
        uuid=uuid7(),
        job_type=handler.job_type,
        claim_mode=claim_mode,
        credential_hash=credential_hash,
        claim_window=claim_window,
        priority=_priority(priority),
        not_before=_not_before(not_before),
        title=_text("title", title, TITLE_MAX_BYTES) or handler.title,
        owner=_text("owner", owner, KEY_MAX_BYTES),
        reference=_text("reference", reference, KEY_MAX_BYTES),
        actor=check_actor(runtime, actor),
        lock_key=check_lock_key(lock_key),
        payload_json=encode_payload(runtime, handler, payload),
        queue_budget=runtime.budget(handler, "queue_budget"),
        revision=runtime.config.revision,
        config_digest=runtime.config.digest,
        base_url=base_url(runtime),
    )


def check_can_launch(runtime: Runtime) -> None:
    """Raises `ConfigError` where no process can work for a job, before any row."""
    if runtime.is_tested:
        return
    if sys.platform == "win32":
        raise ConfigError(
            "jobs.start launches a detached process, which flask_jobrunner does on Linux and macOS "
            "only."
        )
    check_can_be_seen(runtime)
    runtime.make_spool_dir()
    runtime.command()


def check_can_be_seen(runtime: Runtime) -> None:
    """Raises `ConfigError` where no other process can see a job, before any row."""
    if runtime.is_tested:
        return
    if runtime.database.in_memory:
        raise ConfigError(
            'JOBRUNNER_MODE is "process", and the database is in memory, where no other process '
            f"can see the job. Use a database file, such as sqlite:///app.db. {IN_TESTS}"
        )
    if runtime.database.host_has_one_connection:
        raise ConfigError(ONE_CONNECTION)
    kind = network_filesystem(runtime.database.file or "")
    if kind is not None:
        raise ConfigError(
            f"The database file is on a network file system ({kind}), whose locks SQLite cannot "
            "rely on. Move it to a local disk, or use a database server."
        )


def encode_payload(runtime: Runtime, handler: Handler, payload: Any) -> str | None:
    """The payload as stored; None stays none. The handler's `payload=` may refuse it."""
    if payload is None:
        check_payload(handler, None)
        return None
    if not isinstance(payload, dict):
        raise InvalidPayload(
            f"The payload of {handler.job_type} must be a dict or None; it is a "
            f"{type(payload).__name__}."
        )
    try:
        text = encode_json(
            payload,
            max_bytes=runtime.config.payload_max_bytes,
            max_depth=runtime.config.json_max_depth,
            default=getattr(runtime.app.json, "default", None),
            what="payload",
        )
    except NotEncodable as error:
        raise InvalidPayload(f"The payload of {handler.job_type} was refused: {error}.") from error
    # As the child will see it: what `payload=` takes here it takes there, and the caller's own
    # mapping stays as it is.
    check_payload(handler, decode_strict(text))
    return text


def check_payload(handler: Handler, payload: dict[str, Any] | None) -> Any:
    """What `ctx.payload` shall be. Raises `InvalidPayload` when `payload=` refuses it."""
    if handler.payload is None:
        return payload
    try:
        return handler.payload({} if payload is None else payload)
    except Exception as error:
        text = clean_text(f"{type(error).__name__}: {error}")[:2000]
        raise InvalidPayload(f"The payload of {handler.job_type} was refused: {text}") from error


def check_lock_key(lock_key: object) -> str | None:
    """The lock key, exactly as given; blank is none."""
    if lock_key is None or (isinstance(lock_key, str) and not lock_key.strip()):
        return None
    if not isinstance(lock_key, str) or clean_text(lock_key) != lock_key:
        raise InvalidPayload("lock_key must be text without NUL and surrogates.")
    if len(lock_key.encode()) > KEY_MAX_BYTES:
        raise InvalidPayload(f"lock_key must be at most {KEY_MAX_BYTES} bytes.")
    return lock_key


def check_actor(runtime: Runtime, actor: object) -> str | None:
    """Who acts: as given, else the host's or Flask-Login's answer."""
    return _text("actor", actor, KEY_MAX_BYTES) or runtime.hooks.current_actor()


def check_wait(wait: object) -> None:
    """`wait` of a start: True, False, or a number of seconds."""
    if not (isinstance(wait, bool) or is_seconds(wait)):
        raise InvalidPayload(
            f"wait must be True, False or a number of seconds; it is {safe_repr(wait, 80)}."
        )


def _text(name: str, value: object, limit: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidPayload(f"{name} must be a string; it is a {type(value).__name__}.")
    text = value.strip()
    if clean_text(text) != text:
        raise InvalidPayload(f"{name} must be text without NUL and surrogates.")
    if len(text.encode()) > limit:
        raise InvalidPayload(f"{name} must be at most {limit} bytes.")
    return text or None


def _priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > PRIORITY_MAX:
        raise InvalidPayload(
            f"priority must be a whole number from -{PRIORITY_MAX:,} to {PRIORITY_MAX:,}; the "
            "highest goes first."
        )
    return value


def _not_before(value: object) -> int | None:
    """Microseconds UTC."""
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidPayload(
            "not_before must be a datetime with a time zone, such as "
            "datetime.now(UTC) + timedelta(hours=1)."
        )
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def base_url(runtime: Runtime) -> str | None:
    """Where the application is reached, for absolute links: configured, else the request's."""
    if runtime.config.base_url:
        return runtime.config.base_url
    return request.url_root.rstrip("/")[:1024] if has_request_context() else None
