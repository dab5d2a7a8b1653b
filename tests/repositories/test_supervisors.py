"""Supervisors' rows, what they run, and what waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from flask_jobrunner.model.records import Supervisor
from flask_jobrunner.protocol.identity import this_process
from flask_jobrunner.repositories.rows import MICROSECONDS
from flask_jobrunner.repositories.supervisors import NewSupervisor
from tests.helpers.pulled import candidate, claimed, pulled, reserve
from tests.helpers.stores import Store, change, owned, queue, row


def add(store: Store, uuid: str = "s1", **values: Any) -> Supervisor:
    defaults: dict[str, Any] = {
        "process": this_process(),
        "types": (),
        "slots": 2,
        "standby": 0,
        "revision": None,
        "version": "0.1.0",
    }
    store.supervisors.add(NewSupervisor(uuid=uuid, **defaults | values))
    return next(one for one in store.supervisors.all() if one.uuid == uuid)


def silence(store: Store, uuid: str, seconds: float) -> None:
    table = store.database.tables.supervisors
    at = table.c.heartbeat_at - round(seconds * MICROSECONDS)
    statement = table.update().where(table.c.supervisor_uuid == uuid).values(heartbeat_at=at)
    store.database.run(lambda connection: connection.execute(statement))


@pytest.fixture(autouse=True)
def no_supervisors(store: Store) -> None:
    """`store` has emptied the tables."""
    assert store.supervisors.all() == []


def test_a_row_says_who_takes_what(store: Store) -> None:
    found = add(store, types=("reports.*", "mail"), revision="r1", version="v" * 100, slots=3)

    assert found.process == this_process()
    assert (found.types, found.slots, found.standby) == (("reports.*", "mail"), 3, 0)
    assert (found.revision, found.version) == ("r1", "v" * 64)
    assert found.started_at == found.heartbeat_at
    assert found.drain_requested_at is None
    assert 0 <= found.silent_for < 60


def test_a_sign_of_life_and_its_absence(store: Store) -> None:
    add(store)
    silence(store, "s1", 100)
    assert 99 < store.supervisors.all()[0].silent_for < 160
    assert store.supervisors.alive(50) == []
    assert store.supervisors.beat("s1") is False
    assert [one.uuid for one in store.supervisors.alive(50)] == ["s1"]
    assert store.supervisors.beat("none") is None


def test_a_row_is_changed_and_removed(store: Store) -> None:
    for uuid in ("a", "b", "c"):
        add(store, uuid, revision="r1")
    assert store.supervisors.forget_revision("b")
    first, second, third = store.supervisors.all()
    assert [one.revision for one in (first, second, third)] == ["r1", None, "r1"]
    store.supervisors.remove(["a", "c", "none"])
    assert [one.uuid for one in store.supervisors.all()] == ["b"]


@pytest.mark.parametrize(
    ("types", "job_type", "takes"),
    [
        ((), "any.thing", True),
        (("a.*",), "a.b", True),
        (("a.*",), "b.a", False),
        (("x", "[ab].?"), "b.a", True),
        (("A.*",), "a.b", False),
    ],
)
def test_types_by_pattern(
    store: Store, types: tuple[str, ...], job_type: str, *, takes: bool
) -> None:
    assert add(store, types=types).takes_type(job_type) is takes


def test_revisions_by_name(store: Store) -> None:
    pinned, plain = add(store, "a", revision="r1"), add(store, "b")

    assert [pinned.takes_revision(one) for one in ("r1", "r2", None)] == [True, False, True]
    assert [plain.takes_revision(one) for one in ("r1", None)] == [False, True]


def test_the_jobs_in_a_supervisors_slots(store: Store) -> None:
    job, other = pulled(store), pulled(store)
    for one in (job, other):
        assert reserve(store, candidate(store, one))
    on_their_way = store.supervisors.running(["s1"])["s1"]
    assert [one.job.id for one in on_their_way] == [job.id, other.id], "they wait no more"
    assert claimed(store, job)
    change(store, other.id, dispatch_by="s2")
    assert claimed(store, other)
    queue(store)

    found = store.supervisors.running(["s1", "s3"])
    assert {uuid: [one.job.id for one in jobs] for uuid, jobs in found.items()} == {"s1": [job.id]}
    assert store.supervisors.running([]) == {}


def test_what_waits_by_type_and_revision(store: Store) -> None:
    first = pulled(store, job_type="b.b", owner="ann")
    for values in (
        {"job_type": "a.a", "owner": "ben"},
        {"job_type": "a.a", "owner": "ann"},
        {"job_type": "a.a", "revision": "r1"},
        {"job_type": "later", "not_before": 4 * 10**15},
    ):
        pulled(store, **values)
    reserved = pulled(store, job_type="on.its.way")
    assert reserve(store, candidate(store, reserved))
    queue(store)
    change(store, first.id, queued_at=row(store, first.id)["queued_at"] - 1000)

    found = store.supervisors.waiting()
    assert found[0].job_type == "b.b"
    assert found[0].since == owned(store, first).job.queued_at
    told = {(one.job_type, one.revision, one.number) for one in found}
    assert told == {("b.b", None, 1), ("a.a", None, 2), ("a.a", "r1", 1)}
    mine = {(one.job_type, one.number) for one in store.supervisors.waiting("ann")}
    assert mine == {("b.b", 1), ("a.a", 1)}


def test_a_pulse_tells_who_lives_what_waits_and_what_time_it_is(store: Store) -> None:
    nothing = store.supervisors.pulse(50)
    assert (nothing.alive, nothing.waits) == (0, False)
    assert abs(nothing.now.timestamp() - store.database.clock() / MICROSECONDS) < 60

    add(store, uuid="s1")
    add(store, uuid="s2")
    silence(store, "s2", 100)
    job = pulled(store, owner="ann")
    found = store.supervisors.pulse(50)
    assert (found.alive, found.waits) == (1, True)
    assert store.supervisors.pulse(50, "ann").waits
    assert not store.supervisors.pulse(50, "ben").waits

    assert reserve(store, candidate(store, job))
    assert not store.supervisors.pulse(50).waits
