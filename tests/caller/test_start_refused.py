"""What a start refuses before there is a row, and what it stores of what it is given."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from flask_jobrunner.caller.start import start
from flask_jobrunner.model.errors import (
    ConfigError,
    InvalidPayload,
    UnknownJobType,
)
from flask_jobrunner.runtime import Runtime
from tests.helpers.launchers import FakeLauncher
from tests.helpers.stores import (
    everything,
    owned,
)

TYPE = "host.nothing"


def rows(runtime: Runtime) -> int:
    return len(everything(runtime)["jobrun_jobs"])


# -- bad input --------------------------------------------------------------------------------


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


BAD: list[tuple[dict[str, Any], str]] = [
    ({"payload": [1]}, "must be a dict or None; it is a list"),
    ({"payload": "text"}, "must be a dict or None; it is a str"),
    ({"payload": {"a": math.nan}}, "payload['a'] is nan"),
    ({"payload": {"a": {1, 2}}}, "payload['a'] is a builtins.set"),
    ({"payload": {"a": b"x"}}, "builtins.bytes"),
    ({"payload": {1: 2, "1": 3}}, "keys must be strings"),
    ({"payload": nested(33)}, "nested too deeply"),
    ({"payload": {"a": "x" * (1 << 20)}}, "at most 1,048,576 are stored"),
    ({"payload": {"a": 1 << 5000}}, "an integer of 5,001 bits"),
    ({"lock_key": "x" * 192}, "lock_key must be at most 191 bytes"),
    ({"lock_key": "ü" * 96}, "lock_key must be at most 191 bytes"),
    ({"lock_key": "a\0b"}, "lock_key must be text without NUL"),
    ({"lock_key": "\ud800"}, "lock_key must be text"),
    ({"lock_key": 7}, "lock_key must be text"),
    ({"title": "x" * 256}, "title must be at most 255 bytes"),
    ({"title": "ü" * 128}, "title must be at most 255 bytes"),
    ({"title": 7}, "title must be a string; it is a int"),
    ({"title": "a\0"}, "title must be text without NUL"),
    ({"owner": "x" * 192}, "owner must be at most 191 bytes"),
    ({"owner": 42}, "owner must be a string"),
    ({"reference": b"import"}, "reference must be a string"),
    ({"reference": "\udfff"}, "reference must be text"),
    ({"actor": "x" * 192}, "actor must be at most 191 bytes"),
    ({"wait": -1}, "wait must be True, False or a number"),
    ({"wait": math.nan}, "wait must be"),
    ({"wait": math.inf}, "wait must be"),
    ({"wait": 10**400}, "wait must be"),
    ({"wait": "10"}, "wait must be"),
    ({"wait": None}, "wait must be"),
]


@pytest.mark.parametrize(("values", "words"), BAD, ids=[str(n) for n in range(len(BAD))])
def test_bad_input_is_refused_before_there_is_a_row(
    runtime: Runtime, launcher: FakeLauncher, values: dict[str, Any], words: str
) -> None:
    dump = everything(runtime)
    with pytest.raises(InvalidPayload) as refused:
        start(runtime, TYPE, **values)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 500
    assert everything(runtime) == dump
    assert launcher.launched == []


def test_an_unknown_type_is_refused_first(runtime: Runtime, launcher: FakeLauncher) -> None:
    for job_type in ("host.nothin", "", "HOST.NOTHING", "host.nothing "):
        with pytest.raises(UnknownJobType, match=r"Known: .*host\.nothing"):
            start(runtime, job_type, {"a": math.nan})
    assert rows(runtime) == 0


def test_the_longest_values_are_stored(runtime: Runtime, launcher: FakeLauncher) -> None:
    result = start(
        runtime,
        TYPE,
        {"a": "x" * ((1 << 20) - 8)},
        lock_key="ü" * 95,
        title="😀" * 63,
        owner="o" * 191,
        reference="r" * 191,
        actor="a" * 191,
    )
    assert result.status == "launching"


def test_blanks_around_texts_go_and_blank_ones_are_none(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    job = start(runtime, "host.script", title="  ", owner=" ann ", reference="", actor="\n").job
    assert job is not None
    assert (job.title, job.owner, job.reference, job.actor) == ("Script", "ann", None, None)
    assert start(runtime, "host.script", title=" Mine ").job.title == "Mine"


def test_the_payload_is_stored_once_and_the_caller_s_is_left_alone(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    payload = {"list": [1], "day": date(2024, 2, 29)}
    job = start(runtime, TYPE, payload).job
    payload["list"] = "changed"
    assert job is not None
    stored = owned(runtime, job).job.payload
    assert stored == {"list": [1], "day": "Thu, 29 Feb 2024 00:00:00 GMT"}


def test_a_validator_sees_what_the_child_will_see(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def validate(payload: Any) -> None:
        seen.append(payload)
        payload["mine"] = True

    handler = replace(runtime.handlers.find(TYPE), payload=validate)
    monkeypatch.setattr(runtime.handlers, "find", lambda _type: handler)
    given = {"day": date(2024, 2, 29)}
    job = start(runtime, TYPE, given).job
    assert seen == [{"day": "Thu, 29 Feb 2024 00:00:00 GMT", "mine": True}]
    assert given == {"day": date(2024, 2, 29)}
    assert job is not None
    assert job.payload == {"day": "Thu, 29 Feb 2024 00:00:00 GMT"}
    start(runtime, TYPE)
    assert seen[-1] == {"mine": True}


def test_what_a_validator_refuses_makes_no_row(runtime: Runtime, launcher: FakeLauncher) -> None:
    with pytest.raises(InvalidPayload, match="invalid literal for int") as refused:
        start(runtime, "host.validated", {"count": "many"})
    assert isinstance(refused.value.__cause__, ValueError)
    assert rows(runtime) == 0
    assert start(runtime, "host.validated", {"count": "3"}).status == "launching"


# -- what cannot work at all ------------------------------------------------------------------


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
class TestRefusedBeforeARow:
    """A configuration under which no process could take the job."""

    @pytest.mark.parametrize("ask", ["start", "requeue"])
    def test_on_windows(self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
        monkeypatch.setattr("flask_jobrunner.caller.prepare.sys.platform", "win32")
        with pytest.raises(ConfigError, match="Linux and macOS only"):
            self.ask(runtime, ask)

    @pytest.mark.parametrize("ask", ["start", "requeue"])
    def test_a_database_in_memory(
        self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, ask: str
    ) -> None:
        monkeypatch.setattr(type(runtime.database), "in_memory", True)
        with pytest.raises(ConfigError, match="in memory"):
            self.ask(runtime, ask)

    @pytest.mark.parametrize("ask", ["start", "requeue"])
    def test_nobody_says_how_to_build_the_application(
        self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, ask: str
    ) -> None:
        def unknown() -> Any:
            raise ConfigError("nothing says how")

        monkeypatch.setattr(runtime, "command", unknown)
        with pytest.raises(ConfigError, match="nothing says how"):
            self.ask(runtime, ask)

    def ask(self, runtime: Runtime, what: str) -> None:
        from flask_jobrunner.caller.requeue import requeue

        before = everything(runtime)
        try:
            (start(runtime, TYPE) if what == "start" else requeue(runtime, 1))
        finally:
            assert everything(runtime) == before
