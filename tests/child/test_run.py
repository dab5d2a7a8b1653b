"""`perform`: from the handler's import to its outcome, without a process or a database."""

from __future__ import annotations

import dataclasses
import functools
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask, current_app

from flask_jobrunner.child import run as runs
from flask_jobrunner.child.context import JobContext
from flask_jobrunner.child.logbook import Logbook
from flask_jobrunner.child.run import Work, perform
from flask_jobrunner.child.steady import Alarm, Clock, Owner
from flask_jobrunner.config import load_config
from flask_jobrunner.handlers import Handler, HandlerRegistry
from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from flask_jobrunner.model.records import NewLine, Outcome
from flask_jobrunner.model.statuses import StopReason
from flask_jobrunner.runtime import Runtime
from tests.child.fakes import a_claim


class FakeSink:
    def __init__(self) -> None:
        self.lines: list[NewLine] = []
        self.step_key: str | None = None

    def record(self, line: NewLine) -> None:
        self.lines.append(line)

    def set_step(self, step_key: str | None) -> None:
        self.step_key = step_key


class FakeLease:
    def __init__(self) -> None:
        self.asked: StopReason | None = None
        self.is_trusted, self.is_lost, self.hurried = True, False, 0

    def silence(self) -> Any:
        return nullcontext()

    def look(self) -> StopReason | None:
        return self.asked

    def hurry(self) -> None:
        self.hurried += 1


class Rig:
    def __init__(self) -> None:
        self.app = Flask("of_the_test")
        self.registry, self.lease, self.sink = HandlerRegistry(), FakeLease(), FakeSink()
        self.marks: list[object] = [True]
        self.armed: list[tuple[float | None, ...]] = []
        self.uncommitted: object = None
        self.payload_json: str | None = '{"a":1}'

    def _mark_started(self, fence: object, budget: float | None) -> bool:
        mark = self.marks.pop(0)
        if isinstance(mark, Exception):
            raise mark
        return bool(mark)

    def handle(self, function: Any, **options: Any) -> None:
        self.registry.add(Handler(job_type="test.job", function=function, **options))

    def perform(self) -> Outcome | None:
        clock, claim = Clock(), a_claim()
        owned = dataclasses.replace(claim.owned, payload_json=self.payload_json)
        runtime: Any = SimpleNamespace(
            app=self.app,
            config=load_config({"JOBRUNNER_RUN_BUDGET": 60})[0],
            handlers=self.registry,
            ownership=SimpleNamespace(mark_started=self._mark_started),
            uncommitted=lambda: self.uncommitted,
        )
        runtime.budget = functools.partial(Runtime.budget, runtime)
        parts: dict[str, Any] = {"runtime": runtime, "lease": self.lease, "sink": self.sink}
        return perform(
            Work(
                claim=dataclasses.replace(claim, owned=owned),
                logbook=Logbook(limit=1 << 20, clock=clock, ring=Alarm()),
                clock=clock,
                owner=Owner(),
                arm=lambda *limits: self.armed.append(limits),
                **parts,
            )
        )

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(line.level, line.message) for line in self.sink.lines]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(runs, "_PAUSE", 0.0)
    return Rig()


def test_a_handler_runs_in_the_applications_context(rig: Rig) -> None:
    seen: list[object] = []

    def handler(ctx: JobContext) -> dict[str, Any]:
        seen.append(current_app.name)
        return {"payload": ctx.payload}

    rig.handle(handler)
    assert rig.perform() == Outcome(status="succeeded", result_json='{"payload":{"a":1}}')
    assert seen == ["of_the_test"]
    assert rig.armed == [(60.0, None, None)]
    assert rig.said == []


def test_a_handlers_own_budgets_win(rig: Rig) -> None:
    rig.handle(lambda ctx: None, run_budget=5.0, cancel_grace=2.0, stall_budget=9.0)
    rig.perform()
    assert rig.armed == [(5.0, 2.0, 9.0)]


def test_no_payload_is_an_empty_mapping(rig: Rig) -> None:
    rig.payload_json = None
    rig.handle(lambda ctx: ctx.payload)
    outcome = rig.perform()
    assert outcome is not None
    assert outcome.result_json == "{}"


def test_the_payload_is_validated_again(rig: Rig) -> None:
    rig.handle(lambda ctx: ctx.payload, payload=lambda mapping: mapping["a"] + 1)
    outcome = rig.perform()
    assert outcome is not None
    assert outcome.result_json == "2"


def _refuse(_: object) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("text", "validator"),
    [
        ("{broken", None),
        ('{"a":NaN}', None),
        ('{"a":1,"a":2}', None),
        ('{"a":1}', lambda mapping: mapping["b"]),
        ('{"a":1}', _refuse),
    ],
)
def test_a_payload_that_cannot_be_used(rig: Rig, text: str, validator: Any) -> None:
    rig.payload_json = text
    rig.handle(lambda ctx: 1, payload=validator)
    outcome = rig.perform()
    assert outcome is not None
    assert (outcome.status, outcome.reason) == ("failed", "invalid_payload")
    assert rig.armed == []
    assert rig.said[0][0] == "error"


def test_a_type_that_is_not_registered(rig: Rig) -> None:
    outcome = rig.perform()
    assert outcome is not None
    assert outcome.reason == "handler_not_registered"


def test_a_stop_before_the_start_runs_nothing(rig: Rig) -> None:
    ran: list[int] = []
    rig.handle(lambda ctx: ran.append(1))
    rig.lease.asked = "cancel"
    assert rig.perform() == Outcome(status="cancelled")
    assert ran == []
    assert rig.armed == []


def test_the_start_marker_is_tried_again(rig: Rig) -> None:
    rig.marks = [LockBusy("busy"), DatabaseAway("away"), True]
    rig.handle(lambda ctx: 1)
    outcome = rig.perform()
    assert outcome is not None
    assert outcome.status == "succeeded"
    assert rig.lease.hurried == 1


def test_a_job_that_was_taken_away_before_the_start_is_not_run(rig: Rig) -> None:
    rig.marks = [False]
    rig.handle(lambda ctx: 1)
    assert rig.perform() is None


@pytest.mark.parametrize("error", [ValueError("torn"), SystemExit(4)])
def test_a_teardown_that_raises_changes_nothing(rig: Rig, error: BaseException) -> None:
    def teardown(_: object) -> None:
        raise error

    rig.app.teardown_appcontext(teardown)
    rig.handle(lambda ctx: 7)
    outcome = rig.perform()
    assert outcome is not None
    assert outcome.result_json == "7"
    ((level, message),) = rig.said
    assert level == "warning"
    assert message.startswith("A teardown function of the application raised.\nTraceback")


def test_uncommitted_changes_are_warned_of_once(rig: Rig) -> None:
    rig.uncommitted = SimpleNamespace(what="<Order 7>")
    rig.handle(lambda ctx: 7)
    rig.perform()
    ((level, message),) = rig.said
    assert level == "warning"
    assert "<Order 7>" in message


def test_a_handler_that_raises_is_not_asked_about_its_session(rig: Rig) -> None:
    rig.uncommitted = SimpleNamespace(what="<Order 7>")
    rig.handle(_fail)
    outcome = rig.perform()
    assert outcome is not None
    assert (outcome.error_class, outcome.error_message) == ("ValueError", "on purpose")
    assert rig.said == [("error", "on purpose")]
    assert "_fail" in (outcome.traceback or "")
    assert "flask_jobrunner" not in (outcome.traceback or "")


def _fail(_: JobContext) -> None:
    raise ValueError("on purpose")


def test_calls_after_the_return_have_no_effect(rig: Rig) -> None:
    kept: list[JobContext] = []
    rig.handle(kept.append)
    rig.perform()
    kept[0].info("late")
    assert kept[0].late_calls == 1
    assert rig.said == []
