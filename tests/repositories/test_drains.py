"""Asking a supervisor to take no more jobs: once, by whom, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event

from flask_jobrunner.protocol.identity import this_process
from flask_jobrunner.repositories.drains import SupervisorEvent
from tests.helpers.stores import Store
from tests.repositories.test_supervisors import add

ME = this_process()


@pytest.fixture(autouse=True)
def two(store: Store) -> None:
    """Two supervisors; `store` has emptied the tables."""
    for uuid in ("a", "b"):
        add(store, uuid)


def drained(store: Store) -> list[str]:
    return [one.uuid for one in store.supervisors.all() if one.drain_requested_at is not None]


def told(store: Store) -> dict[str, tuple[str, str | None]]:
    return {uuid: (one.action, one.actor) for uuid, one in store.drains.newest(["a", "b"]).items()}


def test_one_is_drained_and_resumed_and_the_other_is_left_alone(store: Store) -> None:
    assert told(store) == {}
    assert store.drains.newest([]) == {}
    assert store.drains.drain("a", ME, "ann")
    assert drained(store) == ["a"]
    assert told(store) == {"a": ("drain", "ann")}

    assert store.drains.resume("a", ME, "ben")
    assert drained(store) == []
    assert told(store) == {"a": ("resume", "ben")}


def test_what_is_so_already_leaves_no_trace(store: Store) -> None:
    assert not store.drains.resume("a", ME, "ann")
    assert told(store) == {}
    assert store.drains.drain("a", ME, "ann")
    (before,) = [one.drain_requested_at for one in store.supervisors.all() if one.uuid == "a"]

    assert not store.drains.drain("a", ME, "ben")
    assert not store.drains.drain("none", ME, "ben")
    assert told(store) == {"a": ("drain", "ann")}
    assert store.supervisors.all()[0].drain_requested_at == before


def test_one_that_ends_says_so_whatever_it_was_asked(store: Store) -> None:
    store.drains.drain("a", ME, "ann")
    assert store.drains.stops("a", ME)
    assert store.drains.stops("b", ME)
    assert not store.drains.stops("none", ME)

    assert drained(store) == ["a", "b"]
    assert told(store) == {"a": ("shutdown", None), "b": ("shutdown", None)}


def test_the_events_outlive_the_supervisor(store: Store) -> None:
    store.drains.drain("a", ME, None)
    store.supervisors.remove(["a"])

    asked: SupervisorEvent = store.drains.newest(["a"])["a"]
    assert (asked.action, asked.actor) == ("drain", None)
    events = store.database.tables.events
    (row,) = store.database.rows(events.select())
    assert (row["job_id"], row["reason"]) == (None, "a")
    assert str(ME.pid) in row["evidence_json"]


def test_a_beat_answers_what_is_asked(store: Store) -> None:
    for known in (False, True):
        assert store.supervisors.beat("a", draining=known) is False
    store.drains.drain("a", ME, "ann")
    for known in (False, True):
        before = store.supervisors.all()[0].heartbeat_at
        assert store.supervisors.beat("a", draining=known) is True
        assert store.supervisors.all()[0].heartbeat_at > before
    assert store.supervisors.beat("none", draining=True) is None


@pytest.fixture
def sent(store: Store) -> Iterator[list[str]]:
    """The statements about supervisors that are sent, by their first word."""
    found, engine = list[str](), store.database.engine

    def note(*told: Any) -> None:
        if "supervisors" in told[2]:
            found.append(told[2].split()[0])

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


def test_a_beat_is_one_statement_as_long_as_nothing_changes(store: Store, sent: list[str]) -> None:
    store.supervisors.beat("a")
    assert sent == ["UPDATE"]

    store.drains.drain("a", ME, "ann")
    sent.clear()
    store.supervisors.beat("a")
    assert sent == ["UPDATE"] * 2

    sent.clear()
    store.supervisors.beat("a", draining=True)
    assert sent == ["UPDATE"]


def test_a_row_that_is_made_anew_stays_drained(store: Store) -> None:
    assert add(store, "c", draining=True).drain_requested_at is not None
