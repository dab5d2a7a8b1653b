"""When to try again, and when to look."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flask_jobrunner.supervisor.backoff import Backoff
from flask_jobrunner.supervisor.wake import Lookout, Silence


class Now:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def test_the_pause_doubles_up_to_its_limit() -> None:
    now = Now()
    backoff = Backoff(1.0, 30.0, now)
    pauses = []
    for _ in range(8):
        pause = backoff.fail()
        assert pause is not None
        assert backoff.left == pause
        pauses.append(pause)
        now.time += pause

    for pause, wanted in zip(pauses, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert wanted * 0.8 <= pause <= wanted * 1.2


def test_failures_within_a_pause_belong_to_it() -> None:
    now = Now()
    backoff = Backoff(1.0, 30.0, now)
    assert backoff.fail()
    before = backoff.left
    assert backoff.fail() is None
    assert (backoff.left, backoff.failures) == (before, 1)


def test_a_success_begins_anew() -> None:
    now = Now()
    backoff = Backoff(1.0, 30.0, now)
    assert not backoff.succeed()
    backoff.fail()
    now.time += 5
    backoff.fail()
    assert backoff.succeed()
    assert (backoff.left, backoff.failures) == (0.0, 0)
    pause = backoff.fail()
    assert pause is not None
    assert pause <= 1.2


def test_a_long_outage_overflows_nothing() -> None:
    now = Now()
    backoff = Backoff(0.5, 15.0, now)
    for _ in range(5000):
        now.time += backoff.fail() or 0
    assert backoff.left <= 18.0


def test_a_lookout_looks_at_first_after_a_hint_and_after_the_idle_sleep() -> None:
    now = Now()
    lookout = Lookout(Silence(), 3.0, now)
    assert lookout.left == 0
    lookout.rest()
    assert 2.4 <= lookout.left <= 3.6
    now.time += 2
    assert 0.4 <= lookout.left <= 1.6
    lookout.hint()
    assert lookout.left == 0
    lookout.rest(1.0)
    assert lookout.left == pytest.approx(1.0)
    assert lookout.interest() == {}
    lookout.step({7: 1})
    assert lookout.left == pytest.approx(1.0)


def test_a_lookout_listens_to_whoever_tells() -> None:
    class Told(Silence):
        def interest(self) -> dict[int, int]:
            return {7: 1}

        def heard(self, ready: Mapping[int, int], *, looking: bool) -> bool:
            return looking and 7 in ready

    now = Now()
    lookout = Lookout(Told(), 3.0, now)
    lookout.rest()
    assert lookout.interest() == {7: 1}
    lookout.step({})
    assert lookout.left > 0
    lookout.step({7: 1})
    assert lookout.left == 0
