"""Logs, history and lists: what comes in which slice."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.errors import InvalidPayload
from flask_jobrunner.model.records import NewLine, Outcome
from flask_jobrunner.repositories.listing import JobFilter, read_cursor
from flask_jobrunner.repositories.logs import SLICE_MAX
from flask_jobrunner.repositories.rows import add_event
from tests.helpers.stores import (
    Store,
    assert_sound,
    change,
    claim,
    everything,
    lines,
    messages,
    new_job,
    owned,
    queue,
    start,
)

# -- log --------------------------------------------------------------------------------------


def with_lines(store: Store, count: int) -> int:
    won = claim(store)
    for first in range(0, count, 400):
        sent = lines(*(str(number) for number in range(first + 1, min(first + 400, count) + 1)))
        assert store.ownership.beat(won.fence, lines=sent, last_seq=first)
    return won.fence.job_id


def numbers(found: list[Any]) -> list[int]:
    assert [str(line.seq) for line in found] == [line.message for line in found]
    return [line.seq for line in found]


def test_slices_of_a_log(store: Store) -> None:
    job_id, other = with_lines(store, 10), with_lines(store, 3)
    logs = store.logs
    assert numbers(logs.after(job_id, 0, 4)) == [1, 2, 3, 4]
    assert numbers(logs.after(job_id, 4, 100)) == [5, 6, 7, 8, 9, 10]
    assert numbers(logs.after(job_id, 10, 5)) == []
    assert numbers(logs.newest(job_id, 3)) == [8, 9, 10]
    assert numbers(logs.before(job_id, 8, 3)) == [5, 6, 7]
    assert numbers(logs.before(job_id, 1, 3)) == []
    assert numbers(logs.after(other, 0, 100)) == [1, 2, 3]
    assert logs.newest(10**9, 3) == []


def test_a_slice_has_an_upper_bound(store: Store) -> None:
    job_id = with_lines(store, SLICE_MAX + 2)
    assert len(store.logs.after(job_id, 0, 10**6)) == SLICE_MAX
    assert len(store.logs.newest(job_id, 10**6)) == SLICE_MAX
    assert numbers(store.logs.after(job_id, 0, 0)) == [1]


@pytest.mark.parametrize("count", [3, 200])
def test_few_lines_and_many_are_stored_alike(store: Store, count: int) -> None:
    """Many are given to the driver by a shorter way."""
    won = claim(store)
    sent = [
        NewLine(
            f"{number} grün 😀 % %s :x {{}}",
            ("debug", "info", "warning", "error")[number % 4],
            ("", "stdout", "stderr")[number % 3],
            "step" if number % 2 else None,
            json.dumps({"n": number}) if number % 5 == 0 else None,
            number,
        )
        for number in range(count)
    ]
    store.ownership.beat(won.fence, lines=sent, last_seq=0)
    stored = store.logs.after(won.fence.job_id, 0, 1000)
    assert len(stored) == count
    for number, (line, want) in enumerate(zip(stored, sent, strict=True)):
        assert (line.seq, line.attempt) == (number + 1, 1)
        assert (line.message, line.level, line.stream) == (want.message, want.level, want.stream)
        assert line.step_key == want.step_key
        assert line.context == (json.loads(want.context_json) if want.context_json else None)
        assert line.created_at.timestamp() == pytest.approx(number / 1e6)
    assert_sound(store)


# -- history ----------------------------------------------------------------------------------


def test_whether_and_how_an_attempt_ended(store: Store) -> None:
    waiting, running = queue(store), claim(store)
    assert not store.events.was_claimed(waiting.id, 1)
    assert store.events.was_claimed(running.fence.job_id, 1)
    assert not store.events.was_claimed(running.fence.job_id, 2)
    assert store.events.end_of(running.fence.job_id, 1) is None

    store.jobs.request_cancel(running.fence.job_id, 1, None)
    assert store.events.end_of(running.fence.job_id, 1) is None
    store.endings.finish(running.fence, Outcome(status="succeeded"))
    end = store.events.end_of(running.fence.job_id, 1)
    assert end is not None
    assert end.to_status == "cancelled"


def test_an_end_is_found_behind_a_long_history(store: Store) -> None:
    won = start(store)

    def long_history(connection: sa.Connection) -> None:
        for number in range(600):
            action, job_id = f"note {number}", won.fence.job_id
            add_event(connection, store.database, job_id=job_id, action=action, attempt=1)

    store.database.run(long_history)
    store.endings.finish(won.fence, Outcome(status="failed", reason="handler_raised"))
    end = store.events.end_of(won.fence.job_id, 1)
    assert end is not None
    assert end.reason == "handler_raised"
    shown = store.events.of(won.fence.job_id)
    assert len(shown) == 500
    assert [event.action for event in shown[-2:]] == ["note 599", "finish"]


# -- lists ------------------------------------------------------------------------------------


def test_pages_lead_through_all_jobs_and_back(store: Store) -> None:
    made = [queue(store).id for _ in range(7)]
    find, all_ids = store.listing.find, list[int]()
    cursor, pages = None, []
    while True:
        page = find(JobFilter(), cursor=cursor, limit=3)
        pages.append(page)
        all_ids += [job.id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert all_ids == made[::-1]
    assert [len(page.jobs) for page in pages] == [3, 3, 1]
    assert [page.previous_cursor is None for page in pages] == [True, False, False]

    back = find(JobFilter(), cursor=pages[2].previous_cursor, limit=3)
    assert [job.id for job in back.jobs] == [job.id for job in pages[1].jobs]
    first = find(JobFilter(), cursor=back.previous_cursor, limit=3)
    assert [job.id for job in first.jobs] == [job.id for job in pages[0].jobs]
    assert first.previous_cursor is None
    assert first.next_cursor == pages[0].next_cursor


def test_a_new_job_shifts_no_page(store: Store) -> None:
    made = [queue(store).id for _ in range(4)]
    page = store.listing.find(JobFilter(), limit=2)
    queue(store)
    rest = store.listing.find(JobFilter(), cursor=page.next_cursor, limit=2)
    assert [job.id for job in page.jobs + rest.jobs] == made[::-1]


def test_narrowed_to_what_was_asked(store: Store) -> None:
    one = queue(store, job_type="a", owner="ann", reference="r:1", actor="x", lock_key="k")
    two = queue(store, job_type="b", owner="bob", reference="r:1", actor="y")
    store.jobs.cancel_queued(two.id, 1, None)

    def ids(**narrow: Any) -> list[int]:
        return [job.id for job in store.listing.find(JobFilter(**narrow)).jobs]

    assert ids() == [two.id, one.id]
    assert ids(job_type="a") == ids(owner="ann") == ids(actor="x") == [one.id]
    assert ids(reference="r:1") == [two.id, one.id]
    assert ids(reference="r:1", owner="bob") == [two.id]
    assert ids(lock_key="k") == [one.id]
    assert ids(lock_key="K") == []
    assert ids(status=["cancelled"]) == [two.id]
    assert ids(status=["queued", "cancelled"]) == [two.id, one.id]
    assert ids(status=[]) == []
    assert ids(owner="") == []


def test_counts_stop_at_their_cap(store: Store) -> None:
    for number in range(5):
        job = queue(store, owner="ann" if number else "bob")
        if number == 4:
            store.jobs.cancel_queued(job.id, 1, None)
    counts = store.listing.counts
    assert counts(JobFilter()) == {
        **dict.fromkeys(["running", "cancel_requested", "succeeded", "failed"], 0),
        **dict.fromkeys(["interrupted", "lost"], 0),
        "queued": 4,
        "cancelled": 1,
    }
    assert counts(JobFilter(), cap=2)["queued"] == 3
    assert counts(JobFilter(owner="ann"))["queued"] == 3


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "n", "-1", "1.0", "nn1", "1n", "\u0661", "1" * 20, "9" * 19, "0x1", " 1", "1;drop"],
)
def test_a_cursor_that_is_none_of_ours(cursor: str) -> None:
    with pytest.raises(InvalidPayload, match="cursor"):
        read_cursor(cursor)


def test_what_a_sweep_has_to_look_at_in_order(store: Store) -> None:
    made = [queue(store, queue_budget=60.0) for _ in range(5)]
    store.jobs.cancel_queued(made[1].id, 1, None)
    claim(store, made[2])
    change(store, made[3].id, claim_deadline=1)
    change(store, made[4].id, queue_deadline=1)
    want = [(job.id, job.uuid) for job in made[2:]]
    assert store.listing.sweepable_ids(0) == want
    assert store.listing.sweepable_ids(made[2].id) == want[1:]
    assert store.listing.sweepable_ids(0, limit=1) == want[:1]


def test_reading_changes_nothing(store: Store) -> None:
    job_id = with_lines(store, 3)
    store.jobs.add(new_job(lock_key="k"))
    dump = everything(store)
    store.jobs.get(job_id)
    store.jobs.holder("k")
    store.logs.newest(job_id, 5)
    store.events.of(job_id)
    store.attempts.of(job_id)
    store.listing.find(JobFilter(owner="x"))
    store.listing.counts(JobFilter())
    store.listing.sweepable_ids(0)
    store.meta.check()
    store.meta.differences()
    assert messages(store, job_id)
    owned(store, job_id)
    assert everything(store) == dump
