"""The phases of stopping, and what is done to children in each."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest

from flask_jobrunner.supervisor.children import Child
from flask_jobrunner.supervisor.dispatch import Handed
from flask_jobrunner.supervisor.drain import Drain
from flask_jobrunner.supervisor.log import Log


class FakeChild:
    """A child that notes what is done to it."""

    def __init__(self, *, claimed: bool = True) -> None:
        self.claimed = claimed
        self.asked = False
        self.pid = 4711
        self.ends: list[tuple[str, float]] = []
        self.handed = Handed(
            id=1, uuid="u", attempt=1, job_type="t", credential_hash="h", envelope=b""
        )

    def ask(self) -> None:
        self.asked = True

    def end(self, why: str, *, grace: float) -> None:
        self.ends.append((why, grace))


class Case:
    """A drain on a clock that stands still."""

    def __init__(self, timeout: float) -> None:
        self.time = 0.0
        self.out = io.StringIO()
        self.drain = Drain(timeout, Log(self.out, as_json=False), lambda: self.time)

    def phase(self) -> str:
        return self.drain.phase

    def step(self, *children: FakeChild) -> None:
        self.drain.step(cast(Any, list(children)))


def test_before_a_signal_nothing_is_done() -> None:
    case, child = Case(30), FakeChild(claimed=False)
    case.time = 1e6
    case.step(child)
    assert (case.drain.began, case.drain.phase, child.asked) == (False, "work", False)


@pytest.mark.parametrize(("timeout", "ask", "end"), [(30, 20, 26), (3, 2, 2.6), (90, 80, 86)])
def test_the_phases_fit_into_the_time(timeout: float, ask: float, end: float) -> None:
    case, child = Case(timeout), FakeChild()
    case.drain.begin()
    case.step(child)
    assert (case.drain.phase, child.asked) == ("drain", False)
    assert case.drain.left == pytest.approx(ask)
    case.time = ask
    case.step(child)
    assert (case.drain.phase, child.asked, child.ends) == ("ask", True, [])
    assert case.drain.left == pytest.approx(end - ask)
    case.time = end
    case.step(child)
    case.step(child)
    ((why, grace),) = child.ends
    assert why == "shutdown"
    assert end + grace <= timeout
    assert "asked to stop" in case.out.getvalue()
    assert "4711 is ended" in case.out.getvalue()


def test_what_has_not_taken_its_job_ends_at_once() -> None:
    case, new, old = Case(30), FakeChild(claimed=False), FakeChild()
    case.drain.begin()
    case.step(new, old)
    assert (new.asked, old.asked) == (True, False)


def test_each_signal_begins_the_next_phase() -> None:
    case, child = Case(600), FakeChild()
    case.drain.hurry()
    assert case.phase() == "drain"
    case.drain.hurry()
    assert case.phase() == "ask"
    case.step(child)
    case.drain.hurry()
    assert case.phase() == "end"
    case.step(child)
    case.drain.hurry()
    case.step(child)
    assert child.ends == [("shutdown", 0.0), ("shutdown", 0.0)]


def test_no_time_at_all_means_at_once() -> None:
    case, child = Case(0), FakeChild()
    case.drain.begin()
    case.step(child)
    assert child.asked
    assert child.ends == [("shutdown", 0.0)]


def test_a_second_begin_changes_nothing() -> None:
    case = Case(30)
    case.drain.begin()
    case.time = 19
    case.drain.begin()
    assert case.drain.left == pytest.approx(1)


def test_a_child_is_what_the_fake_claims_to_be() -> None:
    for name in ("ask", "end", "claimed"):
        assert hasattr(Child, name)
