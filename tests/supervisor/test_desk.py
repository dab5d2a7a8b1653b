"""Work beside the loop, and what becomes of it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flask_jobrunner.supervisor.bell import STOPS, Bell, Signals
from flask_jobrunner.supervisor.desk import Desk
from tests.helpers.waiting import eventually


def delivered(desk: Desk) -> bool:
    desk.deliver()
    return desk.open == 0


def test_the_loop_hears_of_the_work_in_its_own_thread() -> None:
    rung = threading.Event()
    desk = Desk("test", rung.set)
    told: list[object] = []
    desk.ask(
        threading.get_ident, lambda ident: told.extend([ident, threading.get_ident()]), told.append
    )
    assert not desk.is_free
    assert rung.wait(10)
    assert told == []
    desk.deliver()
    there, here = told
    assert here == threading.get_ident() != there
    assert desk.is_free


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_a_failure_is_told_and_costs_no_thread(error: BaseException) -> None:
    desk = Desk("test", lambda: None)
    told: list[object] = []

    def fail() -> None:
        raise error

    desk.ask(fail, told.append, told.append)
    eventually(lambda: delivered(desk))
    assert error in told or "SystemExit" in repr(told)
    desk.ask(lambda: "well", told.append, told.append)
    eventually(lambda: delivered(desk))
    assert told[-1] == "well"


def test_so_many_work_at_once_and_no_more() -> None:
    desk = Desk("test", lambda: None, limit=2)
    go_on, begun = threading.Event(), threading.Semaphore(0)
    done: list[int] = []

    def work(number: int) -> int:
        begun.release()
        go_on.wait(10)
        return number

    for number in range(4):
        desk.ask(lambda n=number: work(n), done.append, lambda error: None)  # type: ignore[misc]
    assert begun.acquire(timeout=10)
    assert begun.acquire(timeout=10)
    assert not begun.acquire(timeout=0.2)
    go_on.set()
    eventually(lambda: delivered(desk))
    assert sorted(done) == [0, 1, 2, 3]


def test_something_surrounds_each_piece() -> None:
    seen: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        seen.append("in")
        yield
        seen.append("out")

    desk = Desk("test", lambda: None, around=around)
    desk.ask(lambda: seen.append("work"), lambda _: None, lambda error: None)
    eventually(lambda: delivered(desk))
    assert seen == ["in", "work", "out"]


def test_without_a_thread_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    desk, told = Desk("test", lambda: None), list[Exception]()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    desk.ask(lambda: 1, lambda _: None, told.append)
    desk.deliver()
    assert "can't start" in str(told[0])
    assert desk.is_free


def test_a_bell_rings_once_and_after_its_end_no_more() -> None:
    bell = Bell()
    (fd,) = bell.interest()
    for _ in range(100_000):
        bell.ring()
    bell.step({fd: 1})
    bell.step({fd: 1})
    bell.step({})
    bell.close()
    bell.ring()


def test_signals_are_taken_whatever_was_inherited() -> None:
    bell = Bell()
    signals = Signals(bell)
    before = {number: signal.getsignal(number) for number in (*STOPS, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        signals.install()
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        assert eventually(signals.take) == [signal.SIGTERM]
        assert signals.take() == []
    finally:
        signals.restore()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, before[signal.SIGHUP])
        bell.close()
    assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
