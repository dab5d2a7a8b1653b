"""Settings: what each key takes, and what a wrong one is told."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from flask import Flask

from flask_jobrunner.config import PREFIX, Config, load_config
from flask_jobrunner.model.errors import ConfigError

GOOD: dict[str, list[Any]] = {
    "APP": ["shop:create_app", None],
    "COMMAND": [["python3", "-m", "flask", "--app", "shop"], None],
    "URL_PREFIX": ["/admin/jobs", "/jobs/", None],
    "BIND_KEY": ["jobs", None],
    "TABLE_PREFIX": ["jobrun_", "x"],
    "HANDLERS": [{"a.b": "shop.jobs:build"}, ["shop.jobs"], {}],
    "UNCOMMITTED": ["error", "warn"],
    "MODE": ["process", "record", "inline"],
    "CLAIM_WINDOW": [1, 30.5],
    "ACK_TIMEOUT": [0.1],
    "LEASE": [15, 60],
    "HEARTBEAT": [5, 0.5],
    "IDLE_SLEEP": [3, 0.5],
    "SLOTS": [1, 64],
    "STANDBY": [0, 1, 8],
    "DRAIN_TIMEOUT": [30, 0.5],
    "QUEUE_BUDGET": [None, 3600],
    "RUN_BUDGET": [None, 0.5],
    "STALL_BUDGET": [None, 300],
    "STALL_ACTION": ["show", "stop"],
    "CANCEL_GRACE": [None, 5],
    "JOB_RETENTION": [None, 90 * 86400],
    "LOG_RETENTION": [None, 86400.0],
    "FILE_RETENTION": [None, 30 * 86400],
    "FILES_DIR": [None, "files", "/srv/shop/files"],
    "FILE_MAX_BYTES": [1, 1 << 40],
    "FILES_MAX": [1, 10_000],
    "REVISION": [None, "1.10", "a1b2c3"],
    "REVISION_GRACE": [None, 3600],
    "INSTANCE": [None, "web-1"],
    "PAYLOAD_MAX_BYTES": [1, 1 << 20],
    "RESULT_MAX_BYTES": [1 << 20],
    "JSON_MAX_DEPTH": [1, 200],
    "LOG_CHUNK_MAX_BYTES": [4, 16384],
    "LOG_MAX_BYTES": [1024, 1 << 30],
    "SPOOL_DIR": [None, "/var/spool/shop"],
    "BASE_URL": [None, "https://shop.example.org/app"],
    "REDACT_KEYS": [["password"], ()],
    "TRUSTED_ORIGINS": [(), ["https://ops.example.org", "http://localhost:8000/"]],
    "TIMEZONE": ["UTC", "Europe/Berlin"],
    "POLL_MIN": [1, 0.5],
    "FORCE_STOP": [True, False],
}
BAD: list[tuple[str, Any]] = [
    ("APP", ""),
    ("APP", 3),
    ("COMMAND", "flask --app shop"),
    ("COMMAND", []),
    ("COMMAND", ["flask", 1]),
    ("COMMAND", ["/nowhere/bin/flask"]),
    ("URL_PREFIX", "jobs"),
    ("URL_PREFIX", "/"),
    ("URL_PREFIX", "/jo bs"),
    ("BIND_KEY", " "),
    ("TABLE_PREFIX", "1x"),
    ("TABLE_PREFIX", "x" * 33),
    ("TABLE_PREFIX", "a; drop"),
    ("HANDLERS", "shop.jobs"),
    ("HANDLERS", {"a.b": "shop.jobs"}),
    ("HANDLERS", {" a.b": "shop.jobs:build"}),
    ("HANDLERS", ["shop/jobs"]),
    ("UNCOMMITTED", "ignore"),
    ("MODE", "Inline"),
    ("MODE", None),
    ("CLAIM_WINDOW", 0),
    ("CLAIM_WINDOW", True),
    ("CLAIM_WINDOW", "30"),
    ("CLAIM_WINDOW", float("nan")),
    ("ACK_TIMEOUT", -1),
    ("LEASE", 1e12),
    ("IDLE_SLEEP", 0),
    ("SLOTS", 0),
    ("SLOTS", 1.5),
    ("STANDBY", -1),
    ("STANDBY", True),
    ("DRAIN_TIMEOUT", -1),
    ("JOB_RETENTION", 0),
    ("LOG_RETENTION", "30d"),
    ("FILE_RETENTION", 0),
    ("FILES_DIR", " "),
    ("FILES_DIR", 3),
    ("FILE_MAX_BYTES", 0),
    ("FILES_MAX", 0),
    ("REVISION_GRACE", 0),
    ("REVISION", 1.1),
    ("REVISION", "r" * 256),
    ("REVISION", "a\0b"),
    ("REVISION", "caf\udce9"),
    ("INSTANCE", ""),
    ("INSTANCE", "i" * 256),
    ("PAYLOAD_MAX_BYTES", 0),
    ("RESULT_MAX_BYTES", 1.5),
    ("JSON_MAX_DEPTH", 10_000),
    ("LOG_CHUNK_MAX_BYTES", 3),
    ("LOG_MAX_BYTES", True),
    ("BASE_URL", "shop.example.org"),
    ("BASE_URL", "https://shop.example.org/?a=1"),
    ("BASE_URL", "https://shop.example.org/#top"),
    ("REDACT_KEYS", "password"),
    ("TRUSTED_ORIGINS", ["ops.example.org"]),
    ("TRUSTED_ORIGINS", ["https://ops.example.org/path"]),
    ("TIMEZONE", "Mars/Olympus"),
    ("TIMEZONE", "../etc"),
    ("POLL_MIN", 0),
    ("FORCE_STOP", 1),
]


def load(**values: Any) -> Config:
    """The settings with these keys, without their prefix."""
    config, _ = load_config({PREFIX + key: value for key, value in values.items()})
    return config


def test_every_key_has_good_values_in_this_test() -> None:
    """A new key without a line above fails here."""
    assert set(GOOD) == {field.name.upper() for field in fields(Config)}


@pytest.mark.parametrize(("key", "value"), [(key, v) for key, vs in GOOD.items() for v in vs])
def test_a_good_value_is_taken(key: str, value: Any) -> None:
    """It is read, alone, beside the defaults."""
    lease = {"LEASE": 60} if key == "HEARTBEAT" else {}

    assert hasattr(load(**{key: value}, **lease), key.lower())


@pytest.mark.parametrize(("key", "value"), BAD)
def test_a_bad_value_names_its_key(key: str, value: Any) -> None:
    """The error says which key it is about."""
    with pytest.raises(ConfigError, match=f"{PREFIX}{key}"):
        load(**{key: value})


def test_defaults_are_the_documented_ones() -> None:
    """A few that others rely on."""
    config = load()

    assert (config.claim_window, config.ack_timeout) == (30, 10)
    assert (config.lease, config.heartbeat, config.margin) == (15, 5, 3)
    assert config.url_prefix == "/jobs"
    assert dict(config.handlers) == {}


def test_a_heartbeat_leaves_room_for_two_more_in_a_lease() -> None:
    """One slow renewal must not cost the job."""
    with pytest.raises(ConfigError, match="at most a third"):
        load(LEASE=15, HEARTBEAT=6)


def test_a_revision_that_the_environment_turned_into_a_float_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1.10 would silently be 1.1."""
    monkeypatch.setenv("SHOP_JOBRUNNER_REVISION", "1.10")
    app = Flask(__name__)
    app.config.from_prefixed_env("SHOP")

    with pytest.raises(ConfigError, match="quote it"):
        load_config(app.config)


def test_an_unknown_key_is_told_with_the_nearest_known_one() -> None:
    """A typing mistake has no effect, and is not silent."""
    _, warnings = load_config({"JOBRUNNER_LAESE": 3, "OTHER": 1, "JOBRUNNER_LEASE": 30})

    assert len(warnings) == 1
    assert "JOBRUNNER_LAESE" in warnings[0]
    assert "Did you mean JOBRUNNER_LEASE?" in warnings[0]


def test_settings_are_frozen() -> None:
    """Read once: a later change has no effect, and cannot be made."""
    with pytest.raises(AttributeError):
        load().lease = 3  # type: ignore[misc]  # what must not work
    for handlers in ({"a.b": "shop.jobs:build"}, ["shop.jobs"]):
        with pytest.raises(TypeError):
            load(HANDLERS=handlers).handlers["c.d"] = "x"  # type: ignore[index]  # the same


def test_the_digest_tells_what_a_child_must_share() -> None:
    """Another revision, bind or handler is another digest; a timeout is not."""
    same, other = load(ACK_TIMEOUT=3).digest, load(REVISION="2").digest

    assert same == load().digest
    assert other != load().digest
