"""Pruning: what is old goes with all that belongs to it, and nothing else does."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner import ConfigError
from flask_jobrunner.model.records import Fence, Outcome
from flask_jobrunner.recovery import retention
from flask_jobrunner.recovery.retention import Ages, PruneResult, dry_run, prune, wanted_ages
from flask_jobrunner.repositories.supervisors import NewSupervisor
from flask_jobrunner.runtime import Runtime
from tests.helpers.stores import ELSEWHERE, claim, end_as, lines, queue, start

DAY = 86400.0


def ended(runtime: Runtime, status: str = "succeeded", *, days: float, printed: int = 3) -> int:
    """A job that ended so long ago; its id."""
    won = start(runtime)
    texts = [f"line {number}" for number in range(printed)]
    assert runtime.ownership.beat(won.fence, lines=lines(*texts), last_seq=0, progress=None)
    finish(runtime, won.fence, status, last_seq=printed)
    back_date(runtime, won.fence.job_id, days)
    return won.fence.job_id


def finish(runtime: Runtime, fence: Fence, status: str, *, last_seq: int) -> None:
    assert runtime.endings.finish(fence, Outcome(status=status), last_seq=last_seq)  # type: ignore[arg-type]


def back_date(runtime: Runtime, job_id: int, days: float) -> None:
    jobs = runtime.database.tables.jobs
    earlier = sa.update(jobs).where(jobs.c.id == job_id)
    value = runtime.database.clock() - int(days * DAY * 1_000_000)
    runtime.database.run(
        lambda connection: connection.execute(earlier.values(finished_at=value)).rowcount
    )


def left(runtime: Runtime) -> dict[str, set[int]]:
    """The jobs that each table still knows."""
    found = {}
    for name in ("jobs", "attempts", "logs", "events"):
        table = getattr(runtime.database.tables, name)
        column = table.c.id if name == "jobs" else table.c.job_id
        rows = runtime.database.rows(sa.select(column.label("id")).distinct())
        found[name] = {row["id"] for row in rows}
    return found


def pruned(
    runtime: Runtime, *, jobs: float | None = None, lines: float | None = None, **how: Any
) -> PruneResult:
    return prune(runtime, Ages(jobs=jobs, lines=lines), **{"pause": lambda _: None} | how)


def test_old_jobs_go_with_all_that_is_theirs(runtime: Runtime) -> None:
    old = [ended(runtime, status, days=10) for status in ("succeeded", "failed", "interrupted")]
    young = ended(runtime, days=2)
    waiting, running = queue(runtime).id, claim(runtime).fence.job_id
    planned = dry_run(runtime, Ages(jobs=5 * DAY))
    assert left(runtime)["jobs"] >= {*old, young}

    result = pruned(runtime, jobs=5 * DAY)

    assert (result.jobs, result.lines, result.kept) == (3, 12, [])
    assert (planned.jobs, planned.lines) == (3, 12)
    assert left(runtime)["jobs"] == {young, waiting, running}
    for table in ("attempts", "logs", "events"):
        assert not left(runtime)[table] & set(old)
        assert young in left(runtime)[table]


def test_lines_go_before_their_job_and_once(runtime: Runtime) -> None:
    old, young = ended(runtime, days=10), ended(runtime, days=2)
    assert dry_run(runtime, Ages(lines=5 * DAY)).lines == 4

    assert pruned(runtime, lines=5 * DAY).lines == 4
    assert left(runtime)["jobs"] == {old, young}
    assert left(runtime)["logs"] == {young}
    owned = runtime.jobs.owned(old)
    assert owned is not None
    # The number of the next line does not begin again, or a reader's cursor would skip some.
    assert owned.log_seq == 4
    assert pruned(runtime, lines=5 * DAY) == PruneResult()


def test_a_long_log_goes_in_steps(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ended(runtime, days=10, printed=25)
    steps = []
    remove = runtime.retention.remove_lines

    def counted(job: Any) -> int | None:
        steps.append(remove(job, 10))
        return steps[-1]

    monkeypatch.setattr(retention, "LINES_AT_ONCE", 10)
    monkeypatch.setattr(runtime.retention, "remove_lines", counted)
    pauses: list[float] = []

    assert pruned(runtime, jobs=DAY, pause=pauses.append).lines == 26
    assert steps == [10, 10, 6]
    assert len(pauses) == 4
    assert left(runtime)["jobs"] == set(), old


def a_supervisor(uuid: str) -> NewSupervisor:
    return NewSupervisor(
        uuid=uuid, process=ELSEWHERE, types=(), slots=1, standby=0, revision=None, version="1"
    )


def test_what_supervisors_were_told_goes_with_jobs_of_that_age_and_not_while_they_live(
    runtime: Runtime,
) -> None:
    for uuid in ("gone", "alive"):
        runtime.supervisors.add(a_supervisor(uuid))
        assert runtime.drains.drain(uuid, ELSEWHERE, "ann")
    events, old = runtime.database.tables.events, runtime.database.clock() - int(9 * DAY * 1e6)
    runtime.database.run(lambda connection: connection.execute(events.update().values(at=old)))
    assert runtime.drains.resume("gone", ELSEWHERE, "ben"), "of today"
    runtime.supervisors.remove(["gone"])
    job = queue(runtime).id

    assert pruned(runtime, jobs=10 * DAY).events == pruned(runtime, lines=DAY).events == 0
    assert dry_run(runtime, Ages(jobs=8 * DAY)).events == 1
    assert pruned(runtime, jobs=8 * DAY).events == 1

    told = runtime.drains.newest(["gone", "alive"])
    assert (told["gone"].action, told["alive"].action) == ("resume", "drain")
    assert left(runtime)["events"] == {None, job}


@pytest.mark.parametrize("status", ["lost", "queued", "running"])
def test_what_nobody_has_decided_about_stays(runtime: Runtime, status: str) -> None:
    if status == "lost":
        won = start(runtime, queue(runtime, lock_key="k"))
        end_as(runtime, won, "lost")
        back_date(runtime, won.fence.job_id, 100)
    elif status == "queued":
        queue(runtime)
    else:
        claim(runtime)

    assert pruned(runtime, jobs=1e-6, lines=1e-6).jobs == 0
    assert len(left(runtime)["jobs"]) == 1


def test_a_job_that_runs_again_meanwhile_is_left_alone(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ended(runtime, "failed", days=10)
    find = runtime.retention.find

    def then_requeued(*args: Any, **options: Any) -> Any:
        found = find(*args, **options)
        if found:
            requeue(runtime, old)
        return found

    monkeypatch.setattr(runtime.retention, "find", then_requeued)
    result = pruned(runtime, jobs=DAY)

    assert (result.jobs, result.lines) == (0, 0)
    assert len(result.kept) == 1
    assert left(runtime)["logs"] == {old}


def requeue(runtime: Runtime, job_id: int) -> None:
    jobs = runtime.database.tables.jobs
    again = sa.update(jobs).where(jobs.c.id == job_id, jobs.c.finished_at.is_not(None))
    values = {"status": "queued", "attempt": 2, "finished_at": None}
    runtime.database.run(lambda connection: connection.execute(again.values(**values)).rowcount)


def test_a_job_that_a_table_of_the_hosts_refers_to_stays(runtime: Runtime) -> None:
    old, other = ended(runtime, days=10), ended(runtime, days=10)
    jobs = runtime.database.tables.jobs
    theirs = sa.Table(
        "invoices",
        sa.MetaData(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("job_id", jobs.c.id.type, sa.ForeignKey(jobs.c.id)),
    )
    runtime.database.run(theirs.create)
    try:
        refer = sa.insert(theirs).values(id=1, job_id=old)
        runtime.database.run(lambda connection: connection.execute(refer).rowcount)
        result = pruned(runtime, jobs=DAY)
    finally:
        runtime.database.run(theirs.drop)

    assert result.jobs == 1
    assert [runtime.jobs.get(uuid).id for uuid in result.kept] == [old]  # type: ignore[union-attr]
    assert runtime.jobs.get(other) is None
    assert old in left(runtime)["events"]


def test_it_stops_when_its_time_is_over(runtime: Runtime) -> None:
    for _ in range(3):
        ended(runtime, days=10)
    ticks = iter(range(1000))

    result = pruned(runtime, jobs=DAY, seconds=4, clock=lambda: float(next(ticks)))

    assert 0 < result.jobs < 3
    assert not result.finished
    assert pruned(runtime, jobs=DAY).finished
    assert left(runtime)["jobs"] == set()


def test_unreadable_reports_go_with_old_jobs(runtime: Runtime) -> None:
    folder = runtime.make_spool_dir()
    uuid = "01890000-0000-7000-8000-000000000000"
    old, young, other = (folder / name for name in (f"{uuid}.1.bad", f"{uuid}.2.bad", "x.bad"))
    for path in (old, young, other):
        path.write_text("nonsense")
    long_ago = time.time() - 10 * DAY
    os.utime(old, (long_ago, long_ago))
    os.utime(other, (long_ago, long_ago))
    assert dry_run(runtime, Ages(jobs=DAY)).reports == 1

    assert pruned(runtime, jobs=DAY).reports == 1
    assert [path.exists() for path in (old, young, other)] == [False, True, True]


def test_an_age_that_is_given_goes_before_the_setting(runtime: Runtime) -> None:
    assert wanted_ages(runtime, Ages(jobs=5.0)) == Ages(jobs=5.0)
    with pytest.raises(ConfigError, match="JOBRUNNER_JOB_RETENTION"):
        wanted_ages(runtime, Ages())


def test_ids_of_what_was_removed_never_come_again(runtime: Runtime) -> None:
    """A fence that did not grow would let a former owner's writes pass for those of the next."""
    before = start(runtime)
    finish(runtime, before.fence, "succeeded", last_seq=0)
    back_date(runtime, before.fence.job_id, 10)
    assert pruned(runtime, jobs=DAY).jobs == 1

    after = start(runtime)
    assert after.fence.job_id > before.fence.job_id
    assert after.attempt_id > before.attempt_id
