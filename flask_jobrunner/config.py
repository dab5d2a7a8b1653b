"""The `JOBRUNNER_…` settings, read once into one frozen, checked object."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from .model.errors import ConfigError
from .protocol.checks import SECONDS_MAX, is_budget
from .protocol.encoding import clean_text
from .protocol.redact import DEFAULT_REDACT_KEYS

PREFIX = "JOBRUNNER_"
Reader = Callable[[str, Any], Any]


def _refuse(key: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{PREFIX}{key} must be {wanted}; it is {value!r}.")


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        hint = ""
        if isinstance(value, (int, float)):
            hint = " (an environment variable is read as JSON: quote it, as in '\"1.10\"')"
        raise _refuse(key, value, f"a non-empty string{hint}")
    if clean_text(value) != value:
        raise _refuse(key, value, "text without NUL and surrogates")
    return value.strip()


def _url_prefix(key: str, value: Any) -> str:
    text = _text(key, value)
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", text.rstrip("/")):
        raise _refuse(key, value, "a path such as '/jobs', or None for no dashboard")
    return text.rstrip("/")


def _table_prefix(key: str, value: Any) -> str:
    text = _text(key, value)
    # 32, because PostgreSQL takes names of 63 and our longest adds 24.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,31}", text):
        raise _refuse(key, value, "an identifier of at most 32 characters such as 'jobrun_'")
    return text


def _argv(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise _refuse(
            key, value, "a list of arguments such as ['/srv/venv/bin/flask', '--app', 'shop']"
        )
    if not all(isinstance(part, str) and "\0" not in part for part in value):
        raise _refuse(key, value, "a list of strings")
    return tuple(value)


def _strings(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _refuse(key, value, "a list of strings")
    return tuple(_text(key, part) for part in value)


def _origins(key: str, value: Any) -> tuple[str, ...]:
    for origin in _strings(key, value):
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
            raise _refuse(key, value, "a list of origins such as 'https://ops.example.org'")
    return tuple(origin.rstrip("/").lower() for origin in value)


def _base_url(key: str, value: Any) -> str:
    text = _text(key, value)
    parts = urlsplit(text)
    other = parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not parts.netloc or other:
        raise _refuse(key, value, "an absolute address such as 'https://shop.example.org'")
    return text.rstrip("/")


def _handlers(key: str, value: Any) -> Mapping[str, str]:
    """Job type -> `module:name`; a plain list names modules to import instead."""
    if isinstance(value, Mapping):
        for job_type, path in value.items():
            if not isinstance(job_type, str) or not job_type or job_type != job_type.strip():
                raise _refuse(key, job_type, "keyed by job types without surrounding blanks")
            if not isinstance(path, str) or not re.fullmatch(r"[\w.]+:[\w.]+", path):
                raise _refuse(key, path, "a map to dotted paths such as 'shop.jobs:build'")
        return MappingProxyType(dict(value))
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _refuse(key, value, "a map of job type to 'module:name', or a list of module names")
    for module in value:
        if not isinstance(module, str) or not re.fullmatch(r"[\w.]+", module):
            raise _refuse(key, module, "made of module names such as 'shop.jobs'")
    return MappingProxyType(dict.fromkeys(value, ""))


def _one_of(*words: str) -> Reader:
    *others, last = [repr(word) for word in words]

    def read(key: str, value: Any) -> str:
        if value not in words:
            raise _refuse(key, value, f"{', '.join(others)} or {last}")
        return str(value)

    return read


def _zone(key: str, value: Any) -> ZoneInfo:
    try:
        return ZoneInfo(_text(key, value))
    except (KeyError, ValueError, OSError):
        raise _refuse(key, value, "a time zone such as 'Europe/Berlin'") from None


def _seconds(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _refuse(key, value, "a number of seconds")
    if not is_budget(value):
        raise _refuse(key, value, f"a number of seconds above 0, at most {SECONDS_MAX:,}")
    return float(value)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(key, value, "True or False")
    return value


def _count(low: int, high: int) -> Reader:
    def read(key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _refuse(key, value, f"a whole number from {low:,} to {high:,}")
        return value

    return read


def _optional(read: Reader) -> Reader:
    return lambda key, value: None if value is None else read(key, value)


def _key(default: Any, read: Reader) -> Any:
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, kw_only=True)
class Config:
    """Every setting; its key is `JOBRUNNER_` and the name in capitals.

    `docs/configuration.md` describes each with type, default and effect. Seconds are floats.
    """

    app: str | None = _key(None, _optional(_text))
    command: tuple[str, ...] | None = _key(None, _optional(_argv))
    mode: str = _key("process", _one_of("process", "record", "inline"))
    url_prefix: str | None = _key("/jobs", _optional(_url_prefix))
    bind_key: str | None = _key(None, _optional(_text))
    table_prefix: str = _key("jobrun_", _table_prefix)
    handlers: Mapping[str, str] = _key((), _handlers)
    uncommitted: str = _key("error", _one_of("error", "warn"))
    slots: int = _key(1, _count(1, 1000))
    standby: int = _key(1, _count(0, 100))
    idle_sleep: float = _key(3.0, _seconds)
    drain_timeout: float = _key(30.0, _seconds)
    claim_window: float = _key(30.0, _seconds)
    ack_timeout: float = _key(10.0, _seconds)
    lease: float = _key(15.0, _seconds)
    heartbeat: float = _key(5.0, _seconds)
    queue_budget: float | None = _key(None, _optional(_seconds))
    run_budget: float | None = _key(None, _optional(_seconds))
    stall_budget: float | None = _key(None, _optional(_seconds))
    stall_action: str = _key("show", _one_of("show", "stop"))
    cancel_grace: float | None = _key(None, _optional(_seconds))
    job_retention: float | None = _key(None, _optional(_seconds))
    log_retention: float | None = _key(None, _optional(_seconds))
    file_retention: float | None = _key(None, _optional(_seconds))
    revision: str | None = _key(None, _optional(_text))
    revision_grace: float | None = _key(None, _optional(_seconds))
    instance: str | None = _key(None, _optional(_text))
    payload_max_bytes: int = _key(1 << 20, _count(1, 64 << 20))
    result_max_bytes: int = _key(1 << 20, _count(1, 64 << 20))
    json_max_depth: int = _key(32, _count(1, 200))
    log_chunk_max_bytes: int = _key(16384, _count(4, 16384))
    log_max_bytes: int = _key(64 << 20, _count(1024, 1 << 40))
    files_dir: str | None = _key(None, _optional(_text))
    file_max_bytes: int = _key(1 << 30, _count(1, 1 << 50))
    files_max: int = _key(100, _count(1, 10_000))
    spool_dir: str | None = _key(None, _optional(_text))
    base_url: str | None = _key(None, _optional(_base_url))
    redact_keys: tuple[str, ...] = _key(DEFAULT_REDACT_KEYS, _strings)
    trusted_origins: tuple[str, ...] = _key((), _origins)
    timezone: ZoneInfo = _key("UTC", _zone)
    poll_min: float = _key(1.0, _seconds)
    force_stop: bool = _key(False, _flag)  # noqa: FBT003 - the default of a key

    @property
    def margin(self) -> float:
        """Seconds by which an owner stops trusting its lease before others may judge it."""
        return self.lease / 5

    @property
    def digest(self) -> str:
        """A short fingerprint of the settings that a child must share with its launcher."""
        shared = [self.table_prefix, self.bind_key, sorted(self.handlers.items()), self.revision]
        return hashlib.sha256(json.dumps(shared).encode()).hexdigest()[:16]


def load_config(mapping: Mapping[str, Any]) -> tuple[Config, list[str]]:
    """The settings in an app's config, and warnings about keys that are not ours.

    Raises `ConfigError` with the key, what it must be, and what it is.
    """
    values: dict[str, Any] = {}
    for item in fields(Config):
        key = item.name.upper()
        value = mapping.get(PREFIX + key, item.default)
        values[item.name] = item.metadata["read"](key, value)
    config = Config(**values)
    _check_together(config)
    return config, _unknown(mapping)


def _check_together(config: Config) -> None:
    if config.heartbeat > config.lease / 3:
        raise ConfigError(
            f"{PREFIX}HEARTBEAT ({config.heartbeat:g} s) must be at most a third of "
            f"{PREFIX}LEASE ({config.lease:g} s), or one slow beat costs the job."
        )
    if config.command and os.sep in config.command[0] and not Path(config.command[0]).exists():
        raise ConfigError(f"{PREFIX}COMMAND starts with {config.command[0]}, which does not exist.")
    for name, limit in (("revision", 255), ("instance", 255)):
        value = getattr(config, name)
        if value is not None and len(value) > limit:
            raise ConfigError(f"{PREFIX}{name.upper()} is longer than {limit} characters.")


def _unknown(mapping: Mapping[str, Any]) -> list[str]:
    known = [PREFIX + item.name.upper() for item in fields(Config)]
    warnings = []
    for key in mapping:
        if key.startswith(PREFIX) and key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            warnings.append(f"{key} is not a setting of flask_jobrunner and has no effect.{hint}")
    return warnings
