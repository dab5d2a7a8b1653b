"""New jobs are heard of on each database, and a channel that is lost is noticed and replaced."""

from __future__ import annotations

import io
import os
import select
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.repositories import announcing
from flask_jobrunner.repositories.waking import ListenerLost, WakeRepository
from flask_jobrunner.repositories.waking.sqlite import FileListener
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.supervisor import waker
from flask_jobrunner.supervisor.desk import Desk
from flask_jobrunner.supervisor.log import Log
from flask_jobrunner.supervisor.waker import Waker
from tests.helpers.waiting import eventually
from tests.host_app import db

QUIET_ROUNDS = 20


class Ear:
    """A waker in a loop of its own, whose clock can be put forward."""

    def __init__(self, runtime: Runtime) -> None:
        self.said = io.StringIO()
        self.skipped = 0.0
        desk = Desk("ear", lambda: None, around=runtime.app.app_context, limit=2)
        log = Log(self.said, as_json=True)
        self.waker = Waker(runtime, log, desk=desk, clock=lambda: time.monotonic() + self.skipped)

    def hears(self, *, looking: bool = True) -> bool:
        """One round of the loop."""
        wanted = list(self.waker.interest())
        pause = min(0.05, self.waker.left(looking=looking))
        ready, _, _ = select.select(wanted, [], [], pause)
        return self.waker.heard(dict.fromkeys(ready, select.POLLIN), looking=looking)

    def has_heard(self) -> None:
        """It hears, in the end."""
        eventually(self.hears, message=self.said.getvalue)

    def has_said(self, text: str, times: int = 1) -> None:
        """It says so, in the end."""

        def said() -> bool:
            self.hears()
            return self.said.getvalue().count(text) >= times

        eventually(said, message=self.said.getvalue)

    def is_quiet(self) -> None:
        """What was on its way has arrived."""
        rounds = iter(range(10_000))
        quiet = 0
        while quiet < QUIET_ROUNDS:
            quiet = 0 if self.hears() else quiet + 1
            assert next(rounds, None) is not None, "it hears something again and again"


@pytest.fixture
def runtime(host_app: Flask) -> Runtime:
    found: Runtime = host_app.extensions["jobrunner"]
    found.meta.ensure()
    return found


@pytest.fixture
def ear(runtime: Runtime) -> Iterator[Ear]:
    made = Ear(runtime)
    made.has_said("new jobs")
    made.is_quiet()
    yield made
    made.waker.close()


@pytest.fixture
def echoing(runtime: Runtime) -> Runtime:
    if runtime.database.dialect != "postgresql":
        pytest.skip("only PostgreSQL tells by a channel")
    return runtime


def how_it_hears(runtime: Runtime) -> str:
    ways = {"sqlite": "through the database's file", "postgresql": "by NOTIFY"}
    return ways.get(runtime.database.dialect, "Asks for new jobs every 200 ms")


@pytest.mark.parametrize("how", ["own", "session", "requeue"])
def test_a_new_job_is_heard_of(ear: Ear, runtime: Runtime, host_jobs: JobRunner, how: str) -> None:
    assert how_it_hears(runtime) in ear.said.getvalue()
    old = host_jobs.enqueue("host.nothing").job
    host_jobs.cancel(old.uuid)
    ear.is_quiet()

    if how == "own":
        host_jobs.enqueue("host.nothing")
    elif how == "requeue":
        host_jobs.requeue(old.uuid)
    else:
        host_jobs.enqueue("host.nothing", session=db.session)
        db.session.commit()

    ear.has_heard()


def test_what_is_not_committed_is_not_heard_of(ear: Ear, host_jobs: JobRunner) -> None:
    host_jobs.enqueue("host.nothing", session=db.session)
    ear.is_quiet()
    db.session.rollback()
    ear.is_quiet()


def test_who_has_no_place_for_a_job_does_not_ask(
    ear: Ear, runtime: Runtime, host_jobs: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime.database.dialect not in ("mysql", "mariadb"):
        pytest.skip("only where nobody tells does it ask")
    asked, mark = list[int](), WakeRepository.mark

    def counted(repository: WakeRepository) -> int:
        asked.append(1)
        return mark(repository)

    monkeypatch.setattr(WakeRepository, "mark", counted)
    ear.skipped += 3600
    for _ in range(QUIET_ROUNDS):
        assert not ear.hears(looking=False)
    assert asked == []
    host_jobs.enqueue("host.nothing")
    ear.has_heard()
    assert asked


# -- PostgreSQL ------------------------------------------------------------------------------------


def listeners(runtime: Runtime) -> list[int]:
    """The server's processes that listen."""
    found = sa.text("SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")
    with runtime.database.engine.connect() as connection:
        return [row.pid for row in connection.execute(found)]


def test_a_connection_that_is_cut_is_replaced(
    ear: Ear, echoing: Runtime, host_jobs: JobRunner
) -> None:
    [pid] = listeners(echoing)
    with echoing.database.engine.connect() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})

    ear.has_said("Does not hear of new jobs: the connection was lost")
    ear.skipped += 5
    ear.has_said("by NOTIFY", times=2)
    [other] = listeners(echoing)
    assert other != pid
    ear.is_quiet()
    host_jobs.enqueue("host.nothing")
    ear.has_heard()


def test_a_channel_that_is_silent_is_found_out_by_its_echo(
    ear: Ear, echoing: Runtime, host_jobs: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a proxy has cut it off without a word to either side."""
    ear.skipped += waker.PROVE_EVERY + 1
    for _ in range(QUIET_ROUNDS):
        ear.hears()
    assert "Does not hear" not in ear.said.getvalue(), "an echo that comes back proves it"

    monkeypatch.setattr(WakeRepository, "echo", lambda _: "echo that goes elsewhere")
    ear.skipped += waker.PROVE_EVERY + 1
    for _ in range(QUIET_ROUNDS):
        ear.hears()
    ear.skipped += waker.ECHO_WITHIN + 1
    ear.has_said("its echo did not come back")
    ear.is_quiet()
    host_jobs.enqueue("host.nothing")
    ear.has_heard()  # it asks meanwhile
    monkeypatch.undo()
    ear.skipped += 5
    ear.has_said("by NOTIFY", times=2)
    assert len(listeners(echoing)) == 1


def test_an_echo_counts_though_another_supervisors_comes_with_it(echoing: Runtime) -> None:
    """As where several are started at once: both words may have come before either looks."""
    listener = echoing.waking.listen()
    assert listener is not None
    with closing(listener):
        words = [echoing.waking.echo(), echoing.waking.echo()]

        def both_came() -> bool:
            listener.heard()
            return listener.has_echoed(words[1])

        eventually(both_came)
        assert listener.has_echoed(words[0])


def test_an_echo_that_comes_late_says_nothing_about_the_next_connection(
    ear: Ear, echoing: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, told, go_on = WakeRepository.echo, threading.Event(), threading.Event()

    def slow(repository: WakeRepository) -> str:
        word = real(repository)
        told.set()
        go_on.wait(60)
        return word

    monkeypatch.setattr(WakeRepository, "echo", slow)
    ear.skipped += waker.PROVE_EVERY + 1
    eventually(lambda: ear.hears() or told.is_set())
    monkeypatch.undo()
    with echoing.database.engine.connect() as connection:
        [pid] = listeners(echoing)
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    ear.has_said("the connection was lost")
    ear.skipped += 5
    ear.has_said("by NOTIFY", times=2)

    go_on.set()
    ear.is_quiet()
    ear.skipped += waker.ECHO_WITHIN + 1
    ear.is_quiet()
    assert "its echo did not come back" not in ear.said.getvalue()


def test_a_word_that_cannot_be_told_harms_no_job(
    echoing: Runtime, host_jobs: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "_TOLD", "SELECT no_such_function(%s, %s)")
    first = host_jobs.enqueue("host.nothing").job
    monkeypatch.undo()
    second = host_jobs.enqueue("host.nothing").job
    assert [host_jobs.get(job.uuid) is not None for job in (first, second)] == [True, True]


# -- SQLite ----------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.sqlite"
    with closing(writer(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
    return path


def writer(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=30)


def until_heard(listener: FileListener) -> None:
    def hears() -> bool:
        select.select([listener.fd], [], [], min(0.05, listener.left))
        return listener.heard()

    eventually(hears)


def settle(listener: FileListener) -> None:
    """What was written before it listened is told and forgotten."""
    rounds = iter(range(10_000))
    while listener.left < 60:
        assert next(rounds, None) is not None
        select.select([listener.fd], [], [], listener.left)
        listener.heard()


@pytest.fixture
def listener(file: Path) -> Iterator[FileListener]:
    made = FileListener(sa.create_engine(f"sqlite:///{file}"))
    yield made
    made.close()


def test_a_file_listener_hears_commits_and_only_them(file: Path, listener: FileListener) -> None:
    settle(listener)
    with closing(writer(file)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (1)")
        settle(listener)
        assert not listener.heard()
        connection.execute("COMMIT")
        until_heard(listener)


def test_a_log_that_is_made_anew_is_watched_again(file: Path) -> None:
    """A write-ahead log goes with the last connection, and the next one makes another."""
    log = file.with_name(f"{file.name}-wal")
    engine = sa.create_engine(f"sqlite:///{file}")
    first = FileListener(engine)
    assert not log.exists() or log.stat().st_size == 0
    with closing(writer(file)) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    until_heard(first)
    settle(first)
    was = log.stat().st_ino
    log.rename(log.with_name("moved"))
    os.close(os.open(log, os.O_CREAT, 0o600))
    assert log.stat().st_ino != was
    first.heard()
    settle(first)
    with log.open("ab") as written:
        written.write(b"x")
    assert not first.heard()
    assert first.left < 60, "a write to the new log is no sign of anything"
    first.close()


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_file_that_is_gone_is_heard_no_more(file: Path, listener: FileListener, how: str) -> None:
    settle(listener)
    if how == "replaced":
        other = file.with_name("other")
        writer(other).close()
        other.write_bytes(file.read_bytes())
        other.replace(file)
    else:
        file.unlink()
    with pytest.raises(ListenerLost):
        settle_or_raise(listener)


def settle_or_raise(listener: FileListener) -> None:
    select.select([listener.fd], [], [], 30)
    listener.heard()


def test_where_files_cannot_be_watched_it_asks(
    runtime: Runtime, host_jobs: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime.database.dialect != "sqlite":
        pytest.skip("only SQLite's file is watched")

    def none_left(_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("flask_jobrunner.protocol.inotify.Inotify.__init__", none_left)
    ear = Ear(runtime)
    ear.has_said("Does not hear of new jobs: files cannot be watched")
    ear.is_quiet()
    host_jobs.enqueue("host.nothing")
    ear.has_heard()
    monkeypatch.undo()
    ear.skipped += 5
    ear.has_said("through the database's file")
    ear.waker.close()
