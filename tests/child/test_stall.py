"""When silence is a stall, and what follows from it; the clock is the test's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from flask_jobrunner.child import watchdog as watchdogs
from flask_jobrunner.child.stall import BLIND, Stall, StallGuard
from flask_jobrunner.child.steady import Clock
from flask_jobrunner.child.watchdog import Watchdog
from flask_jobrunner.model.records import NewLine
from flask_jobrunner.model.statuses import STOP_REASONS, StopReason


@dataclass
class FakeLease:
    asked: StopReason | None = None
    fenced: bool = False
    notes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def ask(self, reason: StopReason) -> None:
        self.asked = max(self.asked or reason, reason, key=STOP_REASONS.index)

    def note(
        self, action: str, *, reason: str | None = None, evidence: dict[str, Any] | None = None
    ) -> None:
        self.notes.append((action, evidence or {}))


class FakeParent:
    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def tell(self, kind: str, **values: Any) -> bool:
        self.messages.append((kind, values))
        return True


class Rig:
    """A watchdog whose looks are the test's, with a stall budget of ten seconds."""

    def __init__(self, *, stops: bool) -> None:
        self.lease, self.parent, self.lines = FakeLease(), FakeParent(), list[NewLine]()
        self.printed, self.waits, self.seconds = 0, False, 0.0
        clock = Clock(0)
        clock.monotonic = lambda: self.seconds
        self.stall = Stall(lambda: (self.printed, self.waits))
        guard = StallGuard(
            self.stall, self.lease, stops=stops, clock=clock, add_line=self.lines.append
        )
        self.dog = Watchdog(
            self.lease,  # type: ignore[arg-type]  # what is asked of it here, it has
            self.parent,  # type: ignore[arg-type]
            clock=clock,
            workers=[],
            stall=guard,
        )
        self.dog.arm(None, 2.0, 10.0)

    def until(self, seconds: float) -> None:
        """Look twice a second, as a watchdog does that is not kept from it."""
        while self.seconds < seconds:
            self.seconds += 0.5
            self.dog._look()

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(line.level, line.message) for line in self.lines]


SILENT = ("warning", "No progress and no output for 10.0 s: the stall budget is over.")


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    monkeypatch.setattr(watchdogs, "end_own_group", lambda: calls.append("ended"))
    return calls


@pytest.fixture
def shows() -> Rig:
    return Rig(stops=False)


@pytest.fixture
def stops() -> Rig:
    return Rig(stops=True)


def test_silence_is_shown_once_and_stops_nothing(shows: Rig) -> None:
    shows.until(9.5)
    assert shows.said == []
    shows.until(60)
    assert shows.said == [SILENT]
    assert shows.lease.notes == [("stall", {"silent": 10.0})]
    assert shows.lease.asked is None
    assert [kind for kind, _ in shows.parent.messages] == ["started"]


def test_a_sign_begins_the_count_anew(shows: Rig) -> None:
    shows.until(8)
    shows.stall.sign()
    shows.until(16)
    shows.printed += 1
    shows.until(26)
    assert shows.said == []
    shows.until(27)
    assert shows.said == [SILENT]


def test_a_stall_that_is_over_is_told_and_the_next_one_too(shows: Rig) -> None:
    shows.until(30)
    shows.stall.sign()
    shows.until(60)
    assert shows.said == [
        SILENT,
        ("info", "The handler goes on, after 30.5 s of silence."),
        SILENT,
    ]
    assert [action for action, _ in shows.lease.notes] == ["stall", "resumed", "stall"]


def test_output_that_nobody_has_read_is_no_silence(stops: Rig) -> None:
    """The database is away and our own buffer full: that holds the handler up."""
    stops.waits = True
    stops.until(60)
    assert (stops.said, stops.lease.asked) == ([], None)


def test_a_process_that_stood_still_gets_a_moment_to_see_what_came(stops: Rig) -> None:
    """Suspended, or held by a C call: the first look after it proves nothing."""
    stops.seconds = 500.0
    stops.dog._look()
    stops.seconds += BLIND / 2
    stops.printed += 1
    stops.dog._look()
    assert stops.lease.asked is None
    stops.until(stops.seconds + 9.5)
    assert stops.lease.asked is None
    stops.until(stops.seconds + 1)
    assert stops.lease.asked == "stall"


def test_a_stop_is_asked_and_the_parent_is_told_the_grace(stops: Rig) -> None:
    stops.until(60)
    assert stops.lease.asked == "stall"
    assert stops.parent.messages[1:] == [("stopping", {"reason": "stall", "grace": 2.0})]
    assert stops.said == [
        ("warning", SILENT[1].removesuffix(".") + ", and the job is stopped."),
    ]


@pytest.mark.parametrize("asked", ["cancel", "force", "run_timeout"])
def test_what_is_to_end_already_is_left_its_own_time(stops: Rig, asked: StopReason) -> None:
    stops.lease.asked = asked
    stops.until(60)
    assert (stops.said, stops.lease.asked) == ([], asked)
    assert "stall" not in [values.get("reason") for _, values in stops.parent.messages]


def test_a_shutdown_does_not_keep_a_stall_from_counting(stops: Rig) -> None:
    stops.lease.ask("shutdown")
    stops.until(60)
    assert stops.lease.asked == "stall"


def test_after_the_handlers_end_silence_is_nothing(stops: Rig) -> None:
    stops.dog.close()
    stops.until(60)
    assert (stops.said, stops.lease.asked) == ([], None)
