"""A server that is not there, and a COMMIT whose answer is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.records import Claim, Outcome, Verdict
from flask_jobrunner.repositories import database as module
from flask_jobrunner.repositories.listing import JobFilter
from tests.helpers.lossy import LossyProxy, proxy_before
from tests.helpers.stores import (
    Store,
    assert_sound,
    claim,
    everything,
    history,
    lines,
    messages,
    new_job,
    open_store,
    owned,
    queue,
    row,
    start,
    try_claim,
)


@pytest.fixture
def proxy(server_store: Store) -> Iterator[LossyProxy]:
    with proxy_before(server_store.url) as found:
        yield found


@pytest.fixture(params=[False, True], ids=["own connections", "kept connections"])
def far(request: pytest.FixtureRequest, server_store: Store, proxy: LossyProxy) -> Iterator[Store]:
    """The same database by way of the proxy, as in a web process and as in a job's."""
    found = open_store(proxy.url(server_store.url), keep=request.param)
    yield found
    found.database.engine.dispose()


# -- the answer to a COMMIT is lost -----------------------------------------------------------


@pytest.mark.parametrize("what", ["answer", "question"])
def test_a_start_whose_commit_broke_is_one_row(
    server_store: Store, far: Store, proxy: LossyProxy, what: Any
) -> None:
    far.meta.ensure()
    proxy.lose(what)
    new = new_job(lock_key="k")
    job = far.jobs.add(new)
    assert proxy.losses == 1
    assert job is not None
    assert job.uuid == new.uuid
    assert len(everything(server_store)["jobrun_jobs"]) == 1
    assert history(server_store, job.id) == [("start", None, "queued")]


@pytest.mark.parametrize("what", ["answer", "question"])
def test_a_claim_whose_commit_broke_is_believed_by_its_token(
    server_store: Store, far: Store, proxy: LossyProxy, what: Any
) -> None:
    job = queue(server_store)
    proxy.lose(what)
    won = try_claim(far, job, token="mine")
    assert proxy.losses == 1
    assert won is not None
    assert won.fence.token == row(server_store, job.id)["worker_token"] == "mine"
    (attempt,) = server_store.attempts.of(job.id)
    assert attempt.id == won.attempt_id
    assert len(history(server_store, job.id)) == 2


def test_a_claim_that_another_won_meanwhile_is_not_believed(
    server_store: Store, far: Store, proxy: LossyProxy
) -> None:
    """The commit never arrived, and before it could be sent again somebody else was there."""
    job = queue(server_store)
    proxy.lose("question")
    run, other = far.database.engine.dispose, list[Claim]()

    def between(*_: Any, **__: Any) -> None:
        run()
        if not other:
            other.append(claim(server_store, job, token="other"))

    far.database.engine.dispose = between  # type: ignore[method-assign]
    assert try_claim(far, job, token="mine") is None
    assert row(server_store, job.id)["worker_token"] == "other"


@pytest.mark.parametrize("what", ["answer", "question"])
def test_every_write_of_an_owner_survives_a_broken_commit(
    server_store: Store, far: Store, proxy: LossyProxy, what: Any
) -> None:
    won = claim(server_store)
    job_id = won.fence.job_id
    acts: list[Callable[[], object]] = [
        lambda: far.ownership.mark_started(won.fence, 60.0),
        lambda: far.ownership.beat(won.fence, lines=lines("a", "b"), last_seq=0),
        lambda: far.ownership.beat(won.fence),
        lambda: far.jobs.request_cancel(job_id, 1, "ann"),
        lambda: far.endings.finish(
            won.fence, Outcome(status="succeeded", result_json="1"), lines=lines("c"), last_seq=2
        ),
    ]
    for number, act in enumerate(acts, start=1):
        proxy.lose(what)
        assert act()
        assert proxy.losses == number
    assert messages(server_store, job_id) == [(1, "a"), (2, "b"), (3, "c"), (4, "Cancelled")]
    assert [action for action, *_ in history(server_store, job_id)] == [
        *("start", "claim", "cancel", "finish")
    ]
    assert row(server_store, job_id)["result_json"] == "1"
    assert_sound(server_store)


@pytest.mark.parametrize("what", ["answer", "question"])
def test_a_verdict_whose_commit_broke_counts_once(
    server_store: Store, far: Store, proxy: LossyProxy, what: Any
) -> None:
    won = start(server_store)
    seen = owned(server_store, won.fence.job_id)
    proxy.lose(what)
    judged = far.endings.end_dead(
        seen, Verdict(status="interrupted", reason="process_died", message="It died.")
    )
    assert proxy.losses == 1
    # After a lost answer the row is found ended: somebody ended it, and it was only once.
    assert judged == (what == "question")
    assert row(server_store, won.fence.job_id)["status"] == "interrupted"
    assert len(history(server_store, won.fence.job_id)) == 3
    assert_sound(server_store)


def test_a_connection_that_died_in_the_pool_is_not_noticed(far: Store, proxy: LossyProxy) -> None:
    queue(far)
    proxy.cut_all()
    assert queue(far).status == "queued"
    assert far.listing.find(JobFilter()).jobs


# -- a server that is not there ---------------------------------------------------------------


def test_refused_is_told_at_once(server_store: Store, proxy: LossyProxy) -> None:
    gone = open_store(proxy.url(server_store.url))
    proxy.refuse()
    acts: list[Callable[[], object]] = [
        lambda: queue(gone),
        lambda: gone.jobs.get(1),
        gone.meta.ensure,
    ]
    for act in acts:
        with pytest.raises(DatabaseAway):
            act()


def test_a_silent_server_is_told_within_the_timeouts(
    server_store: Store, proxy: LossyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # libpq takes no connect timeout below two seconds.
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 2.0)
    monkeypatch.setattr(module, "STATEMENT_TIMEOUT", 2.0)
    proxy.silent = True
    gone = open_store(proxy.url(server_store.url))
    acts: list[tuple[Callable[[], object], int]] = [
        (lambda: queue(gone), 2),
        (lambda: gone.jobs.get(1), 1),
    ]
    for act, tries in acts:
        began = time.monotonic()
        with pytest.raises(DatabaseAway):
            act()
        assert time.monotonic() - began < 2.0 * tries + 60, "it waited without a limit"


def test_an_sqlite_file_that_cannot_be_opened(tmp_path: Path) -> None:
    gone = open_store(f"sqlite:///{tmp_path / 'no such folder' / 'app.sqlite'}")
    with pytest.raises(DatabaseAway):
        queue(gone)
