"""How many stand by, for how long, and what happens while they cannot."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from flask_jobrunner.protocol.messages import STANDBY_MAX_AGE
from flask_jobrunner.supervisor.desk import Desk
from flask_jobrunner.supervisor.log import Log
from flask_jobrunner.supervisor.reserve import CLOSE_SECONDS, LONGEST_PAUSE, Reserve
from tests.helpers.waiting import eventually

BOOT = 20.0


class FakeStandby:
    """A process whose fate is set by a test."""

    patience = 60.0

    def __init__(self, pid: int, began: float) -> None:
        self.pid, self.began = pid, began
        self.match: str | None = None
        self.is_deaf = self.ended = self.hung_up = self.buried = False
        self.answers = True

    @property
    def is_warm(self) -> bool:
        return self.match is not None

    def interest(self) -> dict[int, int]:
        return {}

    def step(self, ready: Mapping[int, int]) -> None:
        pass

    def has_ended(self) -> bool:
        return self.ended

    def can_answer(self) -> bool:
        return self.answers

    def hang_up(self) -> None:
        self.hung_up = True

    def bury(self) -> str:
        self.buried = True
        return "last words"


class Case:
    """A reserve on a clock that stands still."""

    def __init__(self, number: int = 1) -> None:
        self.time = 0.0
        self.started: list[FakeStandby] = []
        self.can_start = True
        self.out = io.StringIO()
        self.desk = Desk("test", lambda: None)
        self.reserve = Reserve(
            number,
            cast(Callable[[], Any], self.start),
            lambda: "same",
            Log(self.out, as_json=True),
            desk=self.desk,
            boot_seconds=BOOT,
            clock=lambda: self.time,
        )

    def start(self) -> FakeStandby:
        if not self.can_start:
            raise OSError("no more processes")
        self.started.append(FakeStandby(len(self.started), self.time))
        return self.started[-1]

    def step(self, seconds: float = 0.0, *, hold: bool = False) -> None:
        self.time += seconds
        self.reserve.step({}, hold=hold)
        eventually(self._is_dealt_with)

    def _is_dealt_with(self) -> bool:
        self.desk.deliver()
        return not self.desk.open

    def told(self, event: str) -> list[str]:
        entries = map(json.loads, self.out.getvalue().splitlines())
        return [entry["message"] for entry in entries if entry["event"] == event]


def test_one_is_built_at_a_time_until_all_are_there() -> None:
    case = Case(2)
    case.step()
    case.step()
    assert len(case.started) == 1
    assert case.reserve.take() is None, "it is not warm yet"
    case.started[0].match = "same"
    case.step()
    case.started[1].match = "same"
    case.step()
    assert len(case.started) == 2

    assert cast(object, case.reserve.take()) is case.started[0]
    case.step(hold=True)
    assert len(case.started) == 2, "not while one takes its job"
    case.step()
    assert len(case.started) == 3


def test_those_that_end_at_once_come_back_ever_more_slowly() -> None:
    case = Case()
    for _ in range(2000):
        case.step(0.5)
        case.started[-1].match = "same"
        case.started[-1].ended = True
    assert all(one.buried for one in case.started[:-1])
    assert 1000 / LONGEST_PAUSE / 1.3 <= len(case.started) <= 1000 / LONGEST_PAUSE / 0.75 + 8
    assert case.reserve.left <= LONGEST_PAUSE * 1.2
    (told,) = case.told("standby_discarded")
    assert told.endswith("Jobs begin in new processes meanwhile. Its last words:\nlast words")


def test_after_one_took_its_job_the_next_comes_at_once() -> None:
    case = Case()
    case.step()
    case.started[0].ended = True
    case.step()
    case.step()
    assert len(case.started) == 1
    case.reserve.answered()
    case.step()
    assert len(case.started) == 2


def test_what_is_not_built_in_time_or_waits_for_too_long_is_replaced() -> None:
    case = Case()
    case.step()
    assert case.reserve.left == BOOT
    case.step(BOOT)
    assert case.started[0].buried
    assert len(case.told("standby_discarded")) == 1

    case.step(LONGEST_PAUSE * 2)
    case.started[1].match = "same"
    case.step()
    case.step(STANDBY_MAX_AGE)
    assert case.started[1].buried
    case.step()
    assert len(case.started) == 3, "age is no failure"
    assert len(case.told("standby_discarded")) == 1


def test_only_one_that_is_the_same_and_answers_is_given_a_job() -> None:
    case = Case()
    spoiled: list[tuple[str, object]] = [
        ("match", "other"),
        ("ended", True),
        ("answers", False),
        ("began", -STANDBY_MAX_AGE),
    ]
    for number, (name, value) in enumerate(spoiled):
        case.step(LONGEST_PAUSE * 2)
        one = case.started[number]
        one.match = "same"
        setattr(one, name, value)
        assert case.reserve.take() is None
        case.step()
        assert one.buried


def test_one_that_cannot_be_heard_is_replaced() -> None:
    case = Case()
    case.step()
    case.started[0].is_deaf = True
    case.step()
    assert case.started[0].buried


def test_where_no_process_can_be_started_it_is_told_once() -> None:
    case = Case()
    case.can_start = False
    for _ in range(100):
        case.step(10)
    assert len(case.told("standby_discarded")) == 1
    assert case.reserve.is_gone


def test_at_the_end_they_may_end_by_themselves() -> None:
    case = Case(2)
    case.step()
    case.started[0].match = "same"
    case.step()
    case.reserve.close()
    case.step()
    assert case.started[0].hung_up
    assert not case.started[0].buried
    assert case.started[1].buried, "it was not built yet"
    assert not case.reserve.is_gone
    case.step(2.0)
    assert case.reserve.is_gone, "it was given its time"
    case.reserve.end()
    case.step()
    assert case.started[0].buried
    assert len(case.started) == 2
    assert case.told("standby_discarded") == []


def test_the_loop_sleeps_while_the_next_one_is_held_back() -> None:
    case = Case()
    case.step()
    case.started[0].match = "same"
    case.step()
    assert case.reserve.take() is not None
    case.step(hold=True)
    assert case.reserve.left > 1, "what it waits for wakes the loop by itself"
    case.step()
    assert len(case.started) == 2


def test_while_no_jobs_are_taken_nobody_stands_by() -> None:
    case = Case()
    case.step()
    case.started[0].match = "same"
    case.step()
    case.reserve.rest(True)
    for _ in range(10):
        case.step(LONGEST_PAUSE)
    assert case.started[0].buried
    assert len(case.started) == 1
    assert case.reserve.left > 1

    case.reserve.rest(False)
    case.step()
    assert len(case.started) == 2
    assert case.told("standby_discarded") == []


def test_one_that_does_not_end_in_its_time_is_ended_though_jobs_go_on() -> None:
    case = Case()
    case.step()
    case.started[0].match = "same"
    case.step()
    case.reserve.close()
    case.step(CLOSE_SECONDS)
    assert case.started[0].buried
    assert case.reserve.left > 1, "the loop sleeps as long as jobs run"
