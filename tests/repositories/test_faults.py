"""Which error is tried again, which means that the connection is gone, which is given up."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa
from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, PendingRollbackError

from flask_jobrunner.model.errors import DatabaseAway, DatabaseFull, LockBusy
from flask_jobrunner.model.records import Outcome
from flask_jobrunner.repositories import database as module
from flask_jobrunner.repositories.faults import classify, missing_table
from tests.helpers.stores import (
    Store,
    assert_sound,
    change,
    claim,
    everything,
    history,
    lines,
    messages,
    new_job,
    queue,
    row,
)


def sqlite(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("text says nothing")
    error.sqlite_errorname = name
    return error


def mysql(number: int) -> pymysql.err.OperationalError:
    return pymysql.err.OperationalError(number, "text says nothing")


def pgcode(state: str) -> psycopg.Error:
    return pg.lookup(state)("text says nothing")


CLASSES: list[tuple[Exception, str]] = [
    *((pgcode(state), "retry") for state in ("40001", "40P01", "55P03", "57014")),
    *(
        (pgcode(state), "reconnect")
        for state in ("57P01", "57P02", "57P03", "57P05", "25P03", "53300", "08006", "08003")
    ),
    (psycopg.OperationalError("connection refused"), "reconnect"),
    (pg.ConnectionTimeout("connection timeout expired"), "reconnect"),
    (psycopg.InterfaceError("the connection is closed"), "reconnect"),
    (psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"), "fatal"),
    *((pgcode(state), "fatal") for state in ("22001", "22003", "42P01", "42703", "23514")),
    *((mysql(number), "retry") for number in (1213, 1205, 1020, 1969)),
    *((mysql(number), "reconnect") for number in (2003, 2006, 2013, 1040, 1053, 1927, 1290)),
    *((mysql(number), "fatal") for number in (1406, 4025, 3819, 1146, 1064, 1366)),
    *((sqlite(name), "retry") for name in ("SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED")),
    *((sqlite(name), "reconnect") for name in ("SQLITE_IOERR_READ", "SQLITE_CANTOPEN")),
    *((sqlite(name), "fatal") for name in ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_TOOBIG")),
    (pgcode("53100"), "full"),
    *((mysql(number), "full") for number in (1021, 1114)),
    *((sqlite(name), "full") for name in ("SQLITE_FULL", "SQLITE_READONLY_DBMOVED")),
    # What sqlite3 itself raises has no name, and says nothing about the connection.
    (sqlite3.OperationalError("Could not decode to UTF-8 column 'title'"), "fatal"),
    (sqlite3.ProgrammingError("Cannot operate on a closed database."), "fatal"),
]


@pytest.mark.parametrize(("original", "fault"), CLASSES, ids=[f"{e!r}"[:40] for e, _ in CLASSES])
def test_by_code_and_not_by_class(original: Exception, fault: str) -> None:
    for kind in (OperationalError, DBAPIError):
        assert classify(kind("SELECT 1", {}, original)) == fault


def test_with_a_coarse_sqlstate_the_number_counts() -> None:
    error = mysql(1205)
    error.sqlstate = "HY000"  # as newer versions of PyMySQL have it
    assert classify(OperationalError("UPDATE", {}, error)) == "retry"


def test_what_has_no_code() -> None:
    assert classify(ValueError("x")) == "fatal"
    assert classify(PendingRollbackError("x")) == "reconnect"
    unknown = OperationalError("SELECT 1", {}, Exception("gone"))
    assert classify(unknown) == "fatal"
    unknown.connection_invalidated = True
    assert classify(unknown) == "reconnect"
    assert classify(IntegrityError("INSERT", {}, sqlite("SQLITE_CONSTRAINT_UNIQUE"))) == "conflict"
    assert classify(IntegrityError("INSERT", {}, pgcode("23505"))) == "conflict"
    assert classify(IntegrityError("INSERT", {}, mysql(1062))) == "conflict"


def test_missing_tables_are_known_by_each_database() -> None:
    for original in (pgcode("42P01"), mysql(1146), sqlite3.OperationalError("no such table: x")):
        assert missing_table(OperationalError("SELECT", {}, original))
    assert not missing_table(OperationalError("SELECT", {}, mysql(1054)))
    assert not missing_table(ValueError("no table"))


# -- faults that the driver raises in the middle of a unit ------------------------------------

CONFLICTS: dict[str, list[Callable[[], Exception]]] = {
    "sqlite": [lambda: sqlite("SQLITE_BUSY"), lambda: sqlite("SQLITE_BUSY_SNAPSHOT")],
    "postgresql": [lambda: pgcode("40P01"), lambda: pgcode("40001"), lambda: pgcode("55P03")],
    "mariadb": [lambda: mysql(1213), lambda: mysql(1205), lambda: mysql(1020)],
}
LOSSES: dict[str, Callable[[], Exception]] = {
    "sqlite": lambda: sqlite("SQLITE_IOERR"),
    "postgresql": lambda: pgcode("57P01"),
    "mariadb": lambda: mysql(2013),
}


class Driver:
    """Raises the driver's own errors at statements and at commits of one store."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.raised = 0
        self._errors: list[tuple[str, Callable[[], Exception]]] = []
        dialect = store.database.engine.dialect
        self._commit = dialect.do_commit
        monkeypatch.setattr(dialect, "do_commit", self._do_commit)
        monkeypatch.setattr(module, "_sleep", lambda _seconds: None)

    def raises(self, where: str, error: Callable[[], Exception], times: int = 1) -> None:
        """`where` is part of a statement, or `before commit`, or `after commit`."""
        self._errors += [(where, error)] * times

    def on_execute(self, _cursor: Any, statement: str, *_: Any) -> None:
        self._meet(statement)

    def _do_commit(self, connection: Any) -> None:
        self._meet("before commit")
        self._commit(connection)
        self._meet("after commit")

    def _meet(self, place: str) -> None:
        if self._errors and self._errors[0][0] in place:
            self.raised += 1
            _, make = self._errors.pop(0)
            error = make()
            raise error


@pytest.fixture
def driver(store: Store, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Faults on the way to the database; reading what is there meets none once they are used."""
    found = Driver(store, monkeypatch)
    dialect = store.database.engine.dialect
    names = ("do_execute", "do_executemany", "do_execute_no_params")
    for name in names:
        sa.event.listen(dialect, name, found.on_execute)
    yield found
    for name in names:
        sa.event.remove(dialect, name, found.on_execute)


# Each unit: made ready before the fault, then done under it; what the database must hold after.
UNITS: dict[str, tuple[Callable[[Store], Any], Callable[[Store, Any], Any]]] = {
    "add": (lambda _store: new_job(lock_key="k"), lambda store, new: store.jobs.add(new)),
    "claim": (
        queue,
        lambda store, job: claim(store, job, token="mine"),
    ),
    "start marker": (
        claim,
        lambda store, won: store.ownership.mark_started(won.fence, 5.0),
    ),
    "beat": (
        claim,
        lambda store, won: store.ownership.beat(won.fence, lines=lines("a", "b"), last_seq=0),
    ),
    "cancel": (
        claim,
        lambda store, won: store.jobs.request_cancel(won.fence.job_id, 1, "ann"),
    ),
    "stop": (
        claim,
        lambda store, won: (
            store.ownership.peek(won.fence)
            and (store.ownership.set_stop_reason(won.fence, "shutdown") or True)
        ),
    ),
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("place", ["UPDATE", "INSERT", "before commit"])
def test_a_conflict_repeats_the_whole_unit(
    store: Store, driver: Driver, name: str, place: str
) -> None:
    prepare, act = UNITS[name]
    for conflict in CONFLICTS[store.kind]:
        ready = prepare(store)
        driver.raised = 0
        driver.raises(place, conflict, times=3)
        assert act(store, ready)
        driver._errors.clear()
        assert_sound(store)
        change_all_locks(store)


def change_all_locks(store: Store) -> None:
    for job in everything(store)["jobrun_jobs"]:
        change(store, job["id"], lock_key=None, active_lock_key=None)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("place", ["before commit", "after commit"])
def test_a_lost_connection_at_the_commit_neither_loses_nor_doubles(
    store: Store, driver: Driver, name: str, place: str
) -> None:
    prepare, act = UNITS[name]
    ready = prepare(store)
    before = {table: len(rows) for table, rows in everything(store).items()}
    driver.raises(place, LOSSES[store.kind])
    assert act(store, ready)
    assert driver.raised == 1
    assert_sound(store)
    after = {table: len(rows) for table, rows in everything(store).items()}
    added = {
        table.removeprefix("jobrun_"): after[table] - before[table]
        for table in after
        if after[table] != before[table]
    }
    assert (
        added
        == {
            "add": {"jobs": 1, "events": 1},
            "claim": {"attempts": 1, "events": 1},
            "start marker": {},
            "beat": {"logs": 2},
            "cancel": {"events": 1},
            "stop": {"events": 1},
        }[name]
    )


def test_what_goes_on_for_ever_ends_after_the_tries(store: Store, driver: Driver) -> None:
    won = claim(store)
    dump = everything(store)
    for conflict in CONFLICTS[store.kind]:
        driver.raised = 0
        driver.raises("UPDATE", conflict, times=50)
        with pytest.raises(LockBusy) as busy:
            store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
        assert busy.value.code == "lock_busy"
        assert driver.raised == module.TRIES
        driver._errors.clear()
        assert everything(store) == dump


def test_a_server_that_stays_away_is_told_as_that(store: Store, driver: Driver) -> None:
    won = claim(store)
    for act in (
        lambda: store.ownership.beat(won.fence),
        lambda: store.ownership.peek(won.fence),
        lambda: store.jobs.get(won.fence.job_id),
    ):
        driver.raised = 0
        driver.raises("", LOSSES[store.kind], times=50)
        with pytest.raises(DatabaseAway) as away:
            act()
        assert driver.raised == module.TRIES
        assert "text says nothing" not in str(away.value)  # it could hold an address
        driver._errors.clear()


def test_time_ends_the_tries_too(
    store: Store, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait for a lock that took all the time is not repeated; a lost commit is looked after."""
    won, clock = claim(store), SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "_monotonic", lambda: clock.now)

    def slow(error: Callable[[], Exception]) -> Callable[[], Exception]:
        def late() -> Exception:
            clock.now += module.BUSY_TIMEOUT
            return error()

        return late

    driver.raises("UPDATE", slow(CONFLICTS[store.kind][0]), times=5)
    with pytest.raises(LockBusy):
        store.ownership.beat(won.fence)
    assert driver.raised == 1

    driver._errors.clear()
    driver.raised = 0
    driver.raises("after commit", slow(LOSSES[store.kind]))
    assert store.jobs.request_cancel(won.fence.job_id, 1, None)
    assert driver.raised == 1

    driver.raised = 0
    driver.raises("", slow(LOSSES[store.kind]), times=5)
    with pytest.raises(DatabaseAway):
        store.ownership.set_stop_reason(won.fence, "shutdown")
    assert driver.raised == 2


def test_a_fault_in_the_second_statement_leaves_no_half_unit(store: Store, driver: Driver) -> None:
    won = claim(store)
    dump = everything(store)
    driver.raises("INSERT", CONFLICTS[store.kind][0], times=50)
    with pytest.raises(LockBusy):
        store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    driver._errors.clear()
    assert everything(store) == dump
    store.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    assert messages(store, won.fence.job_id) == [(1, "a")]


def test_a_full_disk_is_told_as_one_that_may_be_tried_later(store: Store, driver: Driver) -> None:
    """Whoever tries the last write of a job again for long enough then keeps its result."""
    won = claim(store)
    full = {
        "sqlite": lambda: sqlite("SQLITE_FULL"),
        "postgresql": lambda: pgcode("53100"),
        "mariadb": lambda: mysql(1114),
    }[store.kind]
    driver.raises("INSERT", full, times=5)
    with pytest.raises(DatabaseFull, match="disk is full"):
        store.endings.finish(won.fence, Outcome(status="succeeded", result_json="1"))
    driver._errors.clear()
    done = store.endings.finish(won.fence, Outcome(status="succeeded", result_json="1"))
    assert done is not None
    assert (done.job.status, done.result_json) == ("succeeded", "1")


def test_what_is_no_conflict_is_raised_at_once(store: Store, driver: Driver) -> None:
    fatal = {
        "sqlite": lambda: sqlite("SQLITE_TOOBIG"),
        "postgresql": lambda: pgcode("22001"),
        "mariadb": lambda: mysql(1406),
    }[store.kind]
    driver.raises("INSERT", fatal, times=5)
    with pytest.raises(DBAPIError):
        queue(store)
    assert driver.raised == 1
    driver._errors.clear()
    assert everything(store)["jobrun_jobs"] == []


@pytest.mark.parametrize("place", ["before commit", "after commit"])
def test_a_requeue_whose_answer_is_lost(store: Store, driver: Driver, place: str) -> None:
    job = queue(store, lock_key="k")
    store.jobs.fail_queued(job.id, 1, "launch_failed", message="no")
    failed = store.jobs.get(job.id)
    assert failed is not None
    driver.raises(place, LOSSES[store.kind])
    assert store.jobs.requeue(
        failed,
        credential_hash="f" * 64,
        claim_window=30.0,
        queue_budget=None,
        revision=None,
        config_digest="",
        actor=None,
    )
    assert row(store, job.id)["attempt"] == 2
    assert history(store, job.id)[-1] == ("requeue", "failed", "queued")
    assert len(history(store, job.id)) == 3


@pytest.mark.parametrize("place", ["before commit", "after commit"])
def test_a_mint_whose_answer_is_lost(store: Store, driver: Driver, place: str) -> None:
    job = queue(store, credential_hash=None)
    driver.raises(place, LOSSES[store.kind])
    assert store.jobs.mint(job.id, 1, "f" * 64, 30.0)
    assert driver.raised == 1
    assert row(store, job.id)["worker_token_hash"] == "f" * 64
    assert not store.jobs.mint(job.id, 1, "e" * 64, 30.0)


def test_an_insert_that_lands_after_it_was_looked_for(store: Store) -> None:
    """The commit was still under way while the read-back found nothing: never two rows."""
    new = new_job(lock_key="k")
    first, again = store.jobs.add(new), store.jobs.add(new)
    assert first == again
    assert first is not None
    assert len(everything(store)["jobrun_jobs"]) == 1
    assert len(store.events.of(first.id)) == 1
    assert store.jobs.add(new_job(lock_key="k")) is None


def test_a_uuid_that_another_job_has_is_not_hidden(store: Store) -> None:
    taken = queue(store)
    with pytest.raises(IntegrityError):
        store.jobs.add(new_job(uuid=taken.uuid, credential_hash="f" * 64))
