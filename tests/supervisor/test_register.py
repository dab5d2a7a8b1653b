"""A supervisor's own row, as it keeps it, and a job that was reserved when it was drained."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, cast

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.protocol.identity import this_process
from flask_jobrunner.repositories.dispatch import Wanted
from flask_jobrunner.repositories.supervisors import NewSupervisor
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.supervisor.contact import Contact
from flask_jobrunner.supervisor.dispatch import Dispatcher
from flask_jobrunner.supervisor.intake import Intake
from flask_jobrunner.supervisor.log import Log
from flask_jobrunner.supervisor.plan import Plan
from flask_jobrunner.supervisor.upkeep import Register
from flask_jobrunner.supervisor.wake import Lookout, Silence

ME = this_process()


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def runtime(host_app: Flask) -> Runtime:
    found: Runtime = host_app.extensions["jobrunner"]
    return found


@pytest.fixture
def register(runtime: Runtime) -> Register:
    me = NewSupervisor(
        uuid="s1", process=ME, types=(), slots=1, standby=0, revision=None, version="0.1.0"
    )
    return Register(runtime, me)


def is_drained(runtime: Runtime) -> bool:
    (row,) = runtime.supervisors.all()
    return row.drain_requested_at is not None


def test_each_beat_says_what_is_asked_now(runtime: Runtime, register: Register) -> None:
    assert [register.beat(), register.beat()] == [False, False]
    runtime.drains.drain("s1", ME, "ann")
    assert [register.beat(), register.beat()] == [True, True]
    runtime.drains.resume("s1", ME, "ann")
    assert [register.beat(), register.beat()] == [False, False]


def test_a_row_that_was_removed_is_made_anew_as_it_was(
    runtime: Runtime, register: Register
) -> None:
    register.beat()
    runtime.drains.drain("s1", ME, "ann")
    register.beat()
    register.is_outdated()
    runtime.supervisors.remove(["s1"])

    assert register.beat()
    assert is_drained(runtime)


def test_one_that_ends_is_not_resumed(runtime: Runtime, register: Register) -> None:
    register.beat()
    register.stops()
    assert runtime.drains.resume("s1", ME, "ann"), "who asked came a moment too late"

    assert register.beat()
    assert is_drained(runtime)
    assert runtime.drains.newest(["s1"])["s1"].action == "shutdown"


class LateDesk:
    """Work is done at once, and what came of it is heard of in `deliver`."""

    def __init__(self) -> None:
        self.done: list[Callable[[], None]] = []

    @property
    def open(self) -> int:
        return len(self.done)

    @property
    def is_free(self) -> bool:
        return not self.done

    def ask(self, work: Callable[[], Any], then: Callable[[Any], None], _: object) -> None:
        answer = work()
        self.done.append(lambda: then(answer))

    def deliver(self) -> None:
        done, self.done = self.done, []
        for call in done:
            call()


class NoCrew:
    """Nobody runs, and nobody may be started."""

    size = in_doubt = untaken = 0


def test_a_job_that_was_reserved_meanwhile_is_given_back(
    host_app: Flask, host_jobs: JobRunner, runtime: Runtime, register: Register
) -> None:
    host_jobs.enqueue("host.nothing")
    log, desk = Log(io.StringIO(), as_json=False), LateDesk()
    intake = Intake(
        runtime,
        Plan(slots=1, drain_timeout=1.0, version="0.1.0"),
        Dispatcher(runtime, Wanted(), "s1"),
        register,
        cast(Any, NoCrew()),
        Contact(log),
        log,
        desk=cast(Any, desk),
        lookout=Lookout(Silence(), 0.0),
    )

    def reserved() -> bool:
        jobs = runtime.database.tables.jobs
        (row,) = runtime.database.rows(jobs.select())
        return row["dispatch_until"] is not None

    with host_app.app_context():
        intake.step({})
        assert reserved()
        intake.drain(True)
        intake.step({})
        desk.deliver()
        assert not reserved()
        intake.step({})
        assert not reserved(), "it took the job again"
        intake.drain(False)
        intake.step({})
        assert reserved()
