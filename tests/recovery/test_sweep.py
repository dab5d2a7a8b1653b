"""The sweeper: what it ends, what it leaves alone, and what nothing keeps it from."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from flask_jobrunner.model.records import Claim, OwnedJob
from flask_jobrunner.protocol.report import dump_report
from flask_jobrunner.recovery import sweep as module
from flask_jobrunner.recovery.settle import settle_row
from flask_jobrunner.recovery.sweep import Sweeper, sweep_once
from flask_jobrunner.recovery.verdict import lost
from flask_jobrunner.runtime import Runtime
from tests.helpers.reports import heard, report
from tests.helpers.stores import (
    DEAD,
    ELSEWHERE,
    assert_sound,
    change,
    claim,
    everything,
    history,
    messages,
    owned,
    queue,
    row,
    start,
)


class Monotonic:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.paused: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Monotonic:
    return Monotonic()


@pytest.fixture
def sweeper(runtime: Runtime, clock: Monotonic) -> Sweeper:
    return Sweeper(runtime, clock)


def unseen(runtime: Runtime, **values: Any) -> Claim:
    """A started job elsewhere, whose lease ran out."""
    won = start(runtime, queue(runtime, **values), worker=ELSEWHERE)
    change(runtime, won.fence.job_id, lease_until=1)
    return won


def statuses(runtime: Runtime) -> list[str]:
    jobs = runtime.database.tables.jobs
    rows = runtime.database.rows(sa.select(jobs.c.status).order_by(jobs.c.id))
    return [found["status"] for found in rows]


# -- what it does -----------------------------------------------------------------------------


def test_each_row_comes_to_what_can_be_proven(runtime: Runtime, sweeper: Sweeper) -> None:
    waiting = queue(runtime)
    late = queue(runtime)
    change(runtime, late.id, claim_deadline=1)
    living = start(runtime)
    change(runtime, living.fence.job_id, lease_until=1, heartbeat_at=1)
    dead = start(runtime, worker=DEAD)
    elsewhere = unseen(runtime)
    not_started = claim(runtime, worker=ELSEWHERE)
    change(runtime, not_started.fence.job_id, lease_until=1)
    ended = queue(runtime)
    runtime.jobs.cancel_queued(ended.id, 1, None)

    with heard(runtime.app) as signals:
        result = sweeper.sweep()

    assert statuses(runtime) == [
        *("queued", "failed", "running", "interrupted", "running", "interrupted", "cancelled")
    ]
    assert result.looked_at == 5, "what waits in time is left alone"
    assert result.moved == {
        late.uuid: "failed",
        dead.owned.job.uuid: "interrupted",
        not_started.owned.job.uuid: "interrupted",
    }
    assert (result.reports, result.failed) == (0, [])
    assert sorted(uuid for _, uuid, _ in signals) == sorted(result.moved)
    assert sweeper.has_candidates
    assert owned(runtime, waiting).job.is_active
    assert owned(runtime, elsewhere.fence.job_id).job.is_stale
    assert_sound(runtime)


def test_a_second_pass_does_nothing_more(runtime: Runtime, sweeper: Sweeper) -> None:
    start(runtime, worker=DEAD)
    unseen(runtime)
    sweeper.sweep()
    dump = everything(runtime)
    assert sweeper.sweep().moved == {}
    assert everything(runtime) == dump


def test_pages_lead_past_rows_that_cannot_be_judged(
    runtime: Runtime, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 3)
    for _ in range(7):
        unseen(runtime)
    dead = [start(runtime, worker=DEAD) for _ in range(4)]
    result = sweeper.sweep()
    assert set(result.moved) == {won.owned.job.uuid for won in dead}
    assert result.looked_at == 11


def test_two_sweepers_at_once_end_each_job_once(runtime: Runtime) -> None:
    dead = [start(runtime, queue(runtime, lock_key=f"k{n}"), worker=DEAD) for n in range(20)]

    def sweep(_number: int) -> Any:
        with runtime.app.app_context():
            return sweep_once(runtime, pause=lambda _seconds: None)

    with heard(runtime.app) as signals, ThreadPoolExecutor(2) as threads:
        results = list(threads.map(sweep, range(2)))
    assert not any(result.failed for result in results)
    assert set(statuses(runtime)) == {"interrupted"}
    for won in dead:
        assert len(history(runtime, won.fence.job_id)) == 3
        assert len(messages(runtime, won.fence.job_id)) == 1
    assert len(signals) == 20
    assert_sound(runtime)


def test_a_sweep_that_died_in_the_middle_is_completed_by_the_next(
    runtime: Runtime, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = [start(runtime, worker=DEAD) for _ in range(4)]
    left = [2]

    def killed(runtime: Runtime, ref: int | str) -> OwnedJob | None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return settle_row(runtime, ref)

    monkeypatch.setattr(module, "settle_row", killed)
    with pytest.raises(KeyboardInterrupt):
        sweeper.sweep()
    assert statuses(runtime) == ["interrupted"] * 2 + ["running"] * 2
    monkeypatch.undo()
    assert len(Sweeper(runtime).sweep().moved) == 2
    assert [len(history(runtime, won.fence.job_id)) for won in dead] == [3] * 4


# -- lost -------------------------------------------------------------------------------------


def test_lost_takes_one_unchanged_lease_watched_for_long_enough(
    runtime: Runtime, sweeper: Sweeper, clock: Monotonic
) -> None:
    won = unseen(runtime, lock_key="k")
    uuid = won.owned.job.uuid
    assert sweeper.patience == 18.0
    for _ in range(4):
        assert sweeper.sweep().moved == {}
        clock.now += 4.4
    clock.now += 0.3
    assert sweeper.sweep().moved == {}  # 17.9 s
    clock.now += 0.2
    with heard(runtime.app) as signals:
        assert sweeper.sweep().moved == {uuid: "lost"}
    assert signals == [("finished", uuid, "lost")]
    job = owned(runtime, won.fence.job_id).job
    assert (job.status, job.error_reason_code) == ("lost", "owner_gone")
    assert "elsewhere.test" in (job.error_message or "")
    holder = runtime.jobs.holder("k")
    assert holder is not None
    assert holder.job.uuid == uuid
    evidence = runtime.events.of(job.id)[-1].evidence
    assert evidence is not None
    assert evidence["watched"] == pytest.approx(18.1)
    assert not sweeper.has_candidates or sweeper.sweep().moved == {}
    assert_sound(runtime)


def test_a_renewal_meanwhile_begins_the_watch_anew(
    runtime: Runtime, sweeper: Sweeper, clock: Monotonic
) -> None:
    won = unseen(runtime)
    sweeper.sweep()
    clock.now += 10
    change(runtime, won.fence.job_id, lease_until=2)
    assert sweeper.sweep().moved == {}
    clock.now += 10
    assert sweeper.sweep().moved == {}
    clock.now += 8
    assert len(sweeper.sweep().moved) == 1


def test_an_owner_that_renews_is_no_candidate(
    runtime: Runtime, sweeper: Sweeper, clock: Monotonic
) -> None:
    won = unseen(runtime)
    sweeper.sweep()
    runtime.ownership.beat(won.fence)
    clock.now += 100
    assert sweeper.sweep().moved == {}
    assert not sweeper.has_candidates


def test_a_renewal_between_read_and_write_saves_the_job(
    runtime: Runtime, sweeper: Sweeper, clock: Monotonic, monkeypatch: pytest.MonkeyPatch
) -> None:
    won = unseen(runtime)
    sweeper.sweep()
    clock.now += 10
    sweeper.sweep()
    clock.now += 10

    def late(seen: OwnedJob, unchanged_for: float) -> Any:
        runtime.ownership.beat(won.fence)
        return lost(seen, unchanged_for)

    monkeypatch.setattr(module, "lost", late)
    with heard(runtime.app) as signals:
        assert sweeper.sweep().moved == {}
    assert statuses(runtime) == ["running"]
    assert signals == []


@pytest.mark.parametrize("where", ["sweepable_ids", "settle_row", "settle_report"])
def test_while_the_database_was_away_nobody_watched(
    runtime: Runtime,
    sweeper: Sweeper,
    clock: Monotonic,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    """Its owner could not have renewed either."""
    won = unseen(runtime)
    sweeper.sweep()
    clock.now += 10

    def away(*_: Any) -> Any:
        raise DatabaseAway("gone")

    told = report(uuid=won.owned.job.uuid, attempt=7)
    path = runtime.make_spool_dir() / f"{told.uuid}.7.json"
    with monkeypatch.context() as patch:
        patch.setattr(runtime.listing if where == "sweepable_ids" else module, where, away)
        if where == "settle_report":
            path.write_bytes(dump_report(told))
        with pytest.raises(DatabaseAway):
            sweeper.sweep()
    assert path.exists() == (where == "settle_report")
    assert not sweeper.has_candidates
    clock.now += 10
    assert sweeper.sweep().moved == {}
    clock.now += 17
    assert sweeper.sweep().moved == {}
    clock.now += 2
    assert len(sweeper.sweep().moved) == 1


def test_two_looks_far_apart_are_no_watch(
    runtime: Runtime, sweeper: Sweeper, clock: Monotonic
) -> None:
    """As when everything, this process too, was stopped for ten minutes and goes on."""
    unseen(runtime)
    sweeper.sweep()
    clock.now += 600
    assert sweeper.sweep().moved == {}
    clock.now += 17
    assert sweeper.sweep().moved == {}
    clock.now += 2
    assert len(sweeper.sweep().moved) == 1


def test_a_jump_of_the_database_s_clock_loses_nobody(
    runtime: Runtime, sweeper: Sweeper, clock: Monotonic
) -> None:
    """An hour forward: every lease looks expired at once, and every owner goes on renewing."""
    here, there = start(runtime), start(runtime, worker=ELSEWHERE)
    for won in (here, there):
        change(runtime, won.fence.job_id, lease_until=1)
    for _ in range(8):
        assert sweeper.sweep().moved == {}
        clock.now += 5
        runtime.ownership.beat(there.fence)
        change(
            runtime,
            there.fence.job_id,
            lease_until=row(runtime, there.fence.job_id)["lease_until"] - 3600_000_000,
        )
    assert statuses(runtime) == ["running", "running"]


def test_one_sweep_by_itself_watches_for_as_long_as_it_takes(
    runtime: Runtime, clock: Monotonic
) -> None:
    gone, renewed = unseen(runtime), unseen(runtime)

    def pause(seconds: float) -> None:
        clock.pause(seconds)
        runtime.ownership.beat(renewed.fence)

    result = sweep_once(runtime, monotonic=clock, pause=pause)
    assert result.moved == {gone.owned.job.uuid: "lost"}
    assert 18.0 < sum(clock.paused) < 19.0
    assert max(clock.paused) <= runtime.config.heartbeat
    assert statuses(runtime) == ["lost", "running"]


def test_one_sweep_without_a_candidate_does_not_wait(runtime: Runtime, clock: Monotonic) -> None:
    start(runtime, worker=DEAD)
    start(runtime)
    start(runtime, worker=ELSEWHERE)
    assert len(sweep_once(runtime, monotonic=clock, pause=clock.pause).moved) == 1
    assert clock.paused == []


# -- what must not stop it --------------------------------------------------------------------


def test_a_row_that_cannot_be_read_hides_none_behind_it(
    runtime: Runtime, sweeper: Sweeper, caplog: pytest.LogCaptureFixture
) -> None:
    broken = [start(runtime, worker=DEAD) for _ in range(2)]
    dead = start(runtime, worker=DEAD)
    change(runtime, broken[0].fence.job_id, started_at=2**62)  # a time beyond all calendars
    if runtime.database.dialect == "sqlite":
        unreadable = sa.text(
            "UPDATE jobrun_jobs SET title = CAST(x'ff' AS TEXT) WHERE id = :id"
        ).bindparams(id=broken[1].fence.job_id)
        runtime.database.run(lambda connection: connection.execute(unreadable))
    else:
        change(runtime, broken[1].fence.job_id, created_at=-(2**62))

    with caplog.at_level(logging.ERROR, "flask_jobrunner"):
        result = sweeper.sweep()

    assert result.moved == {dead.owned.job.uuid: "interrupted"}
    assert result.failed == [won.owned.job.uuid for won in broken]
    assert all(won.owned.job.uuid in caplog.text for won in broken)


def test_a_row_that_somebody_locks_hides_none_behind_it(
    runtime: Runtime, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, dead = start(runtime, worker=DEAD), start(runtime, worker=DEAD)

    def busy(runtime: Runtime, ref: int | str) -> OwnedJob | None:
        if ref == locked.fence.job_id:
            raise LockBusy("held by a stopped process")
        return settle_row(runtime, ref)

    monkeypatch.setattr(module, "settle_row", busy)
    result = sweeper.sweep()
    assert result.moved == {dead.owned.job.uuid: "interrupted"}
    assert result.failed == [locked.owned.job.uuid]
