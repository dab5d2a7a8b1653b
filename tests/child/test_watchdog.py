"""Budget, cancel grace, TERM and threads that died."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from flask_jobrunner.child import watchdog as watchdogs
from flask_jobrunner.child.lease import FINISH_FOR
from flask_jobrunner.child.steady import Clock
from flask_jobrunner.child.watchdog import STOP_GRACE, Watchdog, heed_term
from flask_jobrunner.model.statuses import StopReason
from tests.helpers.waiting import eventually


@dataclass
class FakeLease:
    asked: StopReason | None = None
    wanted: list[StopReason] = field(default_factory=list)
    fenced: bool = False
    notes: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, reason: StopReason) -> None:
        self.wanted.append(reason)
        self.asked = self.asked or reason

    def note(self, action: str, *, reason: str) -> None:
        self.notes.append((action, reason))


@dataclass
class FakeParent:
    hears: bool = True
    messages: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def tell(self, kind: str, **values: Any) -> bool:
        self.messages.append((kind, values))
        return self.hears


class FakeWorker:
    def __init__(self) -> None:
        self.alive = False

    def revive(self) -> bool:
        died, self.alive = not self.alive, True
        return died


class Rig:
    def __init__(self) -> None:
        self.lease, self.parent, self.worker = FakeLease(), FakeParent(), FakeWorker()
        self.clock = Clock(0)
        self.seconds = 0.0
        self.clock.monotonic = lambda: self.seconds
        self.dog = Watchdog(
            self.lease,  # type: ignore[arg-type]  # two methods of it are enough here
            self.parent,  # type: ignore[arg-type]
            clock=self.clock,
            workers=[self.worker],
        )

    def look(self, seconds: float) -> None:
        self.seconds = seconds
        self.dog._look()


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    monkeypatch.setattr(watchdogs, "end_own_group", lambda: calls.append("ended"))
    return calls


def test_the_parent_is_told_budget_and_grace(rig: Rig) -> None:
    rig.dog.arm(60.0, None)
    rig.dog.arm(None, 2.0)
    assert rig.parent.messages == [
        ("started", {"budget": 60.0, "grace": STOP_GRACE}),
        ("started", {"budget": None, "grace": 2.0}),
    ]


def test_the_run_budget_asks_once(rig: Rig, ended: list[str]) -> None:
    rig.dog.arm(60.0, 2.0)
    rig.look(59.9)
    assert rig.lease.wanted == []
    rig.look(60.0)
    rig.look(61.0)
    assert rig.lease.wanted == ["run_timeout"]
    assert rig.parent.messages[1:] == [("stopping", {"reason": "run_timeout", "grace": 2.0})]
    rig.look(71.0)
    assert ended == []


def test_without_a_parent_the_process_ends_itself_after_the_grace(
    rig: Rig, ended: list[str]
) -> None:
    rig.parent.hears = False
    rig.dog.arm(60.0, 2.0)
    rig.look(60.0)
    rig.look(60.9)
    assert rig.lease.notes == []
    rig.look(61.9)
    assert ended == []
    assert rig.lease.notes == [("kill", "watchdog")]
    rig.look(62.0)
    assert ended == ["ended"]


def test_a_cancel_is_left_to_the_handler_unless_there_is_a_grace(rig: Rig) -> None:
    rig.dog.arm(None, None)
    rig.lease.asked = "cancel"
    rig.look(1.0)
    assert len(rig.parent.messages) == 1
    rig.dog.arm(None, 5.0)
    rig.look(2.0)
    rig.look(3.0)
    assert rig.parent.messages[2:] == [("stopping", {"reason": "cancel", "grace": 5.0})]


def test_the_first_end_counts_when_two_reasons_come(rig: Rig, ended: list[str]) -> None:
    rig.parent.hears = False
    rig.dog.arm(10.0, 5.0)
    rig.look(10.0)
    rig.lease.asked = "cancel"
    rig.look(14.0)
    rig.look(15.0)
    assert ended == ["ended"]


def test_after_the_handlers_end_nothing_is_stopped(rig: Rig, ended: list[str]) -> None:
    rig.parent.hears = False
    rig.dog.arm(1.0, 1.0)
    rig.look(1.0)
    rig.dog.close()
    rig.look(100.0)
    assert ended == []


def test_dead_threads_are_revived(rig: Rig) -> None:
    rig.dog.start()
    eventually(lambda: rig.dog.revived == 1)
    rig.worker.alive = False
    eventually(lambda: rig.dog.revived == 2)


@pytest.fixture
def term() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_the_first_term_asks_and_the_second_has_its_default_effect(rig: Rig, term: None) -> None:
    heed_term(rig.dog)
    os.kill(os.getpid(), signal.SIGTERM)
    eventually(lambda: rig.dog.term_came)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    rig.look(1.0)
    rig.look(2.0)
    assert rig.lease.wanted == ["shutdown"]


def test_a_worker_that_lost_its_job_ends_whatever_its_handler_does(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    monkeypatch.setattr(watchdogs, "end_without_the_job", lambda: left.append("left"))
    rig.dog.arm(60.0, 2.0)
    rig.lease.fenced = True
    rig.look(100.0)
    rig.look(100.0 + watchdogs.FENCED_GRACE - 0.1)
    assert left == []
    # Not for its budget any more: that is the next owner's.
    assert [values.get("reason") for _, values in rig.parent.messages] == [None, "fenced"]
    assert rig.lease.wanted == []
    rig.look(100.0 + watchdogs.FENCED_GRACE)
    assert left == ["left"]


def test_a_handler_that_returned_leaves_its_end_the_time_to_be_written() -> None:
    """The parent, who enforces the budget from outside, is told."""
    rig = Rig()
    rig.dog.arm(60.0, None)
    rig.dog.close()

    assert rig.parent.messages[-1] == ("returned", {"seconds": watchdogs.END_TIME})
    assert watchdogs.END_TIME > FINISH_FOR
