"""Handing out what waits: the order, and the reservation that nobody else touches."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.statuses import POISON_DEATHS
from flask_jobrunner.protocol.envelope import hash_credential
from flask_jobrunner.repositories.dispatch import Wanted, as_like
from flask_jobrunner.repositories.rows import MICROSECONDS
from tests.helpers.pulled import (
    HASH,
    OTHER,
    OTHER_HASH,
    candidate,
    claimed,
    give_back,
    pulled,
    reserve,
    waiting,
)
from tests.helpers.stores import (
    Store,
    assert_sound,
    change,
    everything,
    history,
    owned,
    queue,
    row,
)

# -- who is next ------------------------------------------------------------------------------


def test_a_pulled_job_waits_without_a_credential_and_without_a_claim_deadline(
    store: Store,
) -> None:
    job = pulled(store, queue_budget=60.0)
    found = row(store, job.id)

    assert (found["worker_token_hash"], found["claim_deadline"], found["launched_at"]) == (
        None,
        None,
        None,
    )
    assert found["queue_deadline"] == found["created_at"] + 60 * MICROSECONDS
    assert history(store, job.id) == [("enqueue", None, "queued")]


def test_the_order_is_priority_then_age(store: Store) -> None:
    jobs = [pulled(store, priority=priority) for priority in (0, 5, -3, 5, 0)]

    assert waiting(store) == [jobs[n].id for n in (1, 3, 0, 4, 2)]


def test_of_two_jobs_made_in_one_moment_the_first_goes_first(store: Store) -> None:
    jobs = [pulled(store) for _ in range(3)]
    for job in jobs:
        change(store, job.id, created_at=1_000_000)

    assert waiting(store) == [job.id for job in jobs]


def test_what_is_pushed_is_no_candidate(store: Store) -> None:
    queue(store)

    assert waiting(store) == []


def test_the_queue_deadline_counts_from_when_a_job_may_begin(store: Store) -> None:
    before = row(store, pulled(store).id)["created_at"]
    later = before + 3600 * MICROSECONDS
    found = row(store, pulled(store, queue_budget=60.0, not_before=later).id)
    past = row(store, pulled(store, queue_budget=60.0, not_before=before - 10**9).id)

    assert found["queue_deadline"] == later + 60 * MICROSECONDS
    assert past["queue_deadline"] == past["created_at"] + 60 * MICROSECONDS


def test_what_may_not_begin_yet_waits(store: Store) -> None:
    now = row(store, pulled(store, priority=-1).id)["created_at"]
    early = pulled(store, not_before=now - 1)
    pulled(store, not_before=now + 3600 * MICROSECONDS, priority=9)

    assert waiting(store)[0] == early.id
    assert len(waiting(store)) == 2


def test_what_waited_too_long_is_no_candidate(store: Store) -> None:
    job = pulled(store, queue_budget=60.0)
    change(store, job.id, queue_deadline=1)

    assert waiting(store) == []


def test_a_thousand_rows_that_cannot_be_taken_hide_none_behind_them(store: Store) -> None:
    first = row(store, pulled(store, priority=7, job_type="other.kind").id)
    copies = [
        {
            **{key: value for key, value in first.items() if key != "id"},
            "job_uuid": f"{number:036d}",
            "priority": 7 if number % 2 else number,
            "not_before": None if number % 2 else 2**60,
        }
        for number in range(1000)
    ]
    jobs = store.database.tables.jobs
    store.database.run(lambda connection: connection.execute(sa.insert(jobs), copies))
    last = pulled(store)

    assert waiting(store, types=("test.*",)) == [last.id]


@pytest.mark.parametrize(
    ("pattern", "fitting"),
    [
        ("*", {"a.b", "a_b", "a%b", "axb", "A.b", "[ab", "!a"}),
        ("a.*", {"a.b"}),
        ("a?b", {"a.b", "a_b", "a%b", "axb"}),
        ("a_b", {"a_b"}),
        ("a%b", {"a%b"}),
        ("a[._]b", {"a.b", "a_b"}),
        ("a[!._]b", {"a%b", "axb"}),
        ("[[]ab", {"[ab"}),
        ("[ab", {"[ab"}),
        ("!?", {"!a"}),
        ("", set()),
    ],
)
def test_types_are_taken_by_pattern(store: Store, pattern: str, fitting: set[str]) -> None:
    names = {"a.b", "a_b", "a%b", "axb", "A.b", "[ab", "!a"}
    kinds = {pulled(store, job_type=name).id: name for name in sorted(names)}

    assert {kinds[found] for found in waiting(store, types=(pattern,))} == fitting
    assert len(waiting(store, types=(pattern, "axb"))) == len(fitting | {"axb"})


def test_a_pattern_for_the_database_lets_through_what_fnmatch_does() -> None:
    assert as_like("a[]x]*?%_!") == "a_%_!%!_!!"
    assert as_like("a[]") == "a[]"
    assert as_like("[!]x") == "[!!]x"


def test_a_job_of_another_revision_waits(store: Store) -> None:
    plain, mine = pulled(store), pulled(store, revision="r1")
    pulled(store, revision="r2")

    assert waiting(store, revision="r1") == [plain.id, mine.id]
    assert waiting(store) == [plain.id]


# -- the reservation ----------------------------------------------------------------------------


def test_a_reservation_leaves_the_job_queued(store: Store) -> None:
    job = pulled(store)
    assert reserve(store, candidate(store, job))
    found = row(store, job.id)

    assert (found["status"], found["attempt"]) == ("queued", 1)
    assert (found["worker_token_hash"], found["dispatch_by"]) == (HASH, "s1")
    assert found["dispatch_until"] == found["launched_at"] + 30 * MICROSECONDS
    assert found["row_version"] == 2
    assert waiting(store) == []
    assert history(store, job.id) == [("enqueue", None, "queued")]


def test_nobody_replaces_or_clears_a_reservation_before_it_ends(store: Store) -> None:
    job = pulled(store)
    one = candidate(store, job)
    assert reserve(store, one)
    before = everything(store)

    assert not reserve(store, one, OTHER_HASH)
    assert give_back(store, job, OTHER_HASH) is None
    assert everything(store) == before


def test_a_reservation_that_ended_may_be_taken_over(store: Store) -> None:
    job = pulled(store)
    one = candidate(store, job)
    assert reserve(store, one)
    change(store, job.id, dispatch_until=1)

    assert waiting(store) == [job.id]
    assert claimed(store, job) is None
    assert reserve(store, one, OTHER_HASH)
    assert give_back(store, job) is None
    assert claimed(store, job, credential=OTHER)


@pytest.mark.parametrize(
    "moved",
    [
        {"attempt": 2},
        {"revision": "r2"},
        {"not_before": 2**60},
        {"queue_deadline": 1},
        {"claim_mode": "token"},
    ],
    ids=str,
)
def test_what_moved_on_since_it_was_seen_is_not_reserved(
    store: Store, moved: dict[str, Any]
) -> None:
    job = pulled(store)
    one = candidate(store, job)
    change(store, job.id, **moved)

    assert not reserve(store, one)


def test_a_cancelled_job_is_neither_reserved_nor_claimed(store: Store) -> None:
    job = pulled(store, lock_key="k")
    one = candidate(store, job)
    assert reserve(store, one)
    assert store.jobs.cancel_queued(job.id, 1, "ann")

    assert claimed(store, job) is None
    assert give_back(store, job) is None
    assert not reserve(store, one)
    assert_sound(store)


def test_of_many_at_once_each_job_is_reserved_by_one(store: Store) -> None:
    jobs = [pulled(store) for _ in range(12)]
    won: list[int] = []
    barrier = threading.Barrier(6)

    def work(name: str) -> None:
        barrier.wait()
        while True:
            for one in store.dispatch.candidates(Wanted()):
                if store.dispatch.reserve(
                    one, supervisor=name, credential_hash=hash_credential(OTHER), claim_window=60
                ):
                    won.append(one.id)
                    break
            else:
                return

    threads = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert Counter(won) == Counter(job.id for job in jobs)


def test_an_answer_that_was_lost_is_found_again(store: Store) -> None:
    job = pulled(store)
    one = candidate(store, job)
    assert reserve(store, one)

    found = store.database.read(lambda connection: store.dispatch._reserved(connection, one, HASH))
    assert found is True


def test_what_is_given_back_is_next_again(store: Store) -> None:
    job = pulled(store)
    assert reserve(store, candidate(store, job))

    assert give_back(store, job) == "queued"
    found = row(store, job.id)
    assert [found[name] for name in ("worker_token_hash", "dispatch_by", "dispatch_until")] == [
        None
    ] * 3
    assert found["unstarted_deaths"] == 0
    assert waiting(store) == [job.id]


def test_a_job_of_which_processes_die_is_poison(store: Store) -> None:
    job = pulled(store, lock_key="k")
    answers = []
    for _ in range(POISON_DEATHS):
        assert reserve(store, candidate(store, job))
        answers.append(give_back(store, job, died=True))
    ended = owned(store, job).job

    assert answers == ["queued", "queued", "failed"]
    assert (ended.status, ended.error_reason_code, ended.error_message) == (
        "failed",
        "poison",
        "It died.",
    )
    assert history(store, job.id)[-1] == ("fail", "queued", "failed")
    assert store.jobs.holder("k") is None
    assert_sound(store)
