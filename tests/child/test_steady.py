"""Clock, waiting and threads that a handler cannot replace."""

from __future__ import annotations

import os
import threading
import time

import pytest

from flask_jobrunner.child.steady import Alarm, Clock, Owner, Worker, within
from tests.helpers.waiting import eventually


def test_the_clock_goes_on_when_time_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1_000_000)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    first = clock.now()
    assert first >= 1_000_000
    eventually(lambda: clock.now() > first)


def test_an_alarm_ends_the_wait_once() -> None:
    alarm = Alarm()
    alarm.ring()
    alarm.ring()
    assert alarm.wait(5)
    assert not alarm.wait(0.01)
    assert not alarm.wait(-1)


def test_a_fork_is_not_the_owner() -> None:
    owner = Owner()
    assert owner.is_here()
    owner.pid += 1
    assert not owner.is_here()


def test_a_worker_shows_that_it_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Thread", None)
    ran: list[int] = []

    def loop() -> None:
        ran.append(os.getpid())
        if len(ran) == 1:
            raise SystemExit

    worker = Worker(loop)
    worker.start()
    eventually(lambda: not worker.alive)
    worker.start()
    eventually(lambda: len(ran) == 2)


def test_within_gives_up_in_time() -> None:
    stuck = Alarm()
    assert not within(0.05, lambda: stuck.wait(10))
    stuck.ring()
    assert within(5, lambda: None)
