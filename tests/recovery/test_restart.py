"""Jobs that run again by themselves, and jobs that wait for a revision that is gone."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner import handlers
from flask_jobrunner.model.errors import LockBusy
from flask_jobrunner.model.records import Fence, Job, Outcome
from flask_jobrunner.protocol.identity import this_process, uuid7
from flask_jobrunner.recovery.restart import RESTART_WITHIN, fail_stranded, restart_interrupted
from flask_jobrunner.recovery.sweep import sweep_once
from flask_jobrunner.repositories import listing
from flask_jobrunner.repositories.supervisors import NewSupervisor
from flask_jobrunner.runtime import Runtime
from tests.helpers.pulled import PULLED, candidate, claimed, reserve
from tests.helpers.stores import change, owned, queue, start

TYPE = "restart.me"


@pytest.fixture
def runtime_config() -> dict[str, object]:
    return {"JOBRUNNER_REVISION": "new", "JOBRUNNER_REVISION_GRACE": 60}


@pytest.fixture(autouse=True)
def restartable(runtime: Runtime) -> Any:
    described = handlers.describe(
        TYPE,
        title=None,
        payload=None,
        run_budget=None,
        queue_budget=None,
        stall_budget=None,
        cancel_grace=None,
        restart_interrupted=2,
    )
    runtime.handlers.add(described)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE_MAX", 2)


def take(runtime: Runtime, job: Job) -> Fence:
    """Hand a waiting job out and begin it."""
    seen = owned(runtime, job.id)
    assert reserve(runtime, candidate(runtime, job, seen.revision))
    won = claimed(runtime, job, revision=seen.revision)
    assert won is not None
    assert runtime.ownership.mark_started(won.fence, None)
    return won.fence


def ago(runtime: Runtime, seconds: float) -> int:
    return runtime.database.clock() - round(seconds * 1_000_000)


def interrupted(runtime: Runtime, status: str = "interrupted", **values: Any) -> int:
    job = queue(runtime, **PULLED | {"job_type": TYPE} | values)
    fence = take(runtime, job)
    if status == "cancelled":
        assert runtime.jobs.request_cancel(job.id, 1, None)
    assert runtime.endings.finish(fence, Outcome(status=status))  # type: ignore[arg-type]
    return job.id


def test_an_interrupted_job_waits_again_as_often_as_its_handler_allows(runtime: Runtime) -> None:
    job_id = interrupted(runtime, lock_key="k")

    for times in (1, 2):
        result = sweep_once(runtime)
        seen = owned(runtime, job_id)
        assert result.moved == {seen.job.uuid: "queued"}
        assert (seen.job.status, seen.job.attempt) == ("queued", times + 1)
        assert seen.revision == "new"
        fence = take(runtime, seen.job)
        end = Outcome(status="interrupted", reason="shutdown")
        assert runtime.endings.finish(fence, end, last_seq=seen.log_seq)

    assert sweep_once(runtime).moved == {}
    assert owned(runtime, job_id).job.status == "interrupted"
    actions = [event.action for event in runtime.events.of(job_id)]
    assert actions.count("restart") == 2


@pytest.mark.parametrize("status", ["failed", "cancelled", "succeeded"])
def test_nothing_else_runs_again_by_itself(runtime: Runtime, status: str) -> None:
    interrupted(runtime, status)

    assert restart_interrupted(runtime) == []


def test_nor_does_a_pushed_job_or_one_of_another_type_or_an_old_one(runtime: Runtime) -> None:
    pushed = start(runtime, queue(runtime, job_type=TYPE))
    assert runtime.endings.finish(pushed.fence, Outcome(status="interrupted"))
    interrupted(runtime, job_type="other.type")
    change(runtime, interrupted(runtime), finished_at=ago(runtime, RESTART_WITHIN + 60))

    assert restart_interrupted(runtime) == []


def test_a_lock_that_is_held_is_waited_for(runtime: Runtime) -> None:
    job_id = interrupted(runtime, lock_key="k")
    holder = queue(runtime, lock_key="k")

    assert restart_interrupted(runtime) == []
    assert runtime.jobs.cancel_queued(holder.id, 1, None)
    assert restart_interrupted(runtime) == [owned(runtime, job_id).job.uuid]


def test_a_manual_requeue_begins_the_count_anew(runtime: Runtime) -> None:
    job_id = interrupted(runtime)
    change(runtime, job_id, restarts=2)
    assert restart_interrupted(runtime) == []
    seen = owned(runtime, job_id)
    assert runtime.jobs.requeue(
        seen.job,
        claim_mode="trusted",
        credential_hash=None,
        claim_window=None,
        queue_budget=None,
        revision=None,
        config_digest="d",
        actor="ann",
    )
    jobs = runtime.database.tables.jobs
    (row,) = runtime.database.rows(sa.select(jobs.c.restarts).where(jobs.c.id == job_id))
    assert row["restarts"] == 0


def stranded(runtime: Runtime, seconds: float, **values: Any) -> int:
    job = queue(runtime, **PULLED | {"revision": "old"} | values)
    change(runtime, job.id, queued_at=ago(runtime, seconds))
    return job.id


def test_a_job_of_a_revision_that_nobody_runs_fails_after_the_grace(runtime: Runtime) -> None:
    late, early = stranded(runtime, 61), stranded(runtime, 30)
    ours = [stranded(runtime, 61, revision=revision) for revision in ("new", None)]

    assert fail_stranded(runtime) == [owned(runtime, late).job.uuid]
    job = owned(runtime, late).job
    assert (job.status, job.error_reason_code) == ("failed", "revision_mismatch")
    assert "It was made for old." in (job.error_message or "")
    assert {owned(runtime, job_id).job.status for job_id in (early, *ours)} == {"queued"}


def supervisor(revision: str) -> NewSupervisor:
    return NewSupervisor(
        uuid=uuid7(),
        process=this_process(),
        types=(),
        slots=1,
        standby=0,
        revision=revision,
        version="1",
    )


def test_it_waits_on_while_a_supervisor_of_its_revision_lives(runtime: Runtime) -> None:
    stranded(runtime, 61)
    new = supervisor("old")
    runtime.supervisors.add(new)

    assert fail_stranded(runtime) == []
    runtime.supervisors.remove([new.uuid])
    assert len(fail_stranded(runtime)) == 1


def test_jobs_of_a_revision_that_is_run_hide_none_of_one_that_is_not(
    runtime: Runtime, small_pages: None
) -> None:
    runtime.supervisors.add(supervisor("old"))
    for _ in range(3):
        stranded(runtime, 61)
    gone = stranded(runtime, 61, revision="gone")

    assert fail_stranded(runtime) == [owned(runtime, gone).job.uuid]


def test_jobs_whose_lock_is_held_hide_none_behind_them(runtime: Runtime, small_pages: None) -> None:
    for _ in range(3):
        interrupted(runtime, lock_key="k")
    queue(runtime, lock_key="k")
    free = interrupted(runtime)

    assert restart_interrupted(runtime) == [owned(runtime, free).job.uuid]


def test_a_job_that_is_not_due_yet_waits_for_its_revision_from_then_on(runtime: Runtime) -> None:
    job_id = stranded(runtime, 61)
    change(runtime, job_id, not_before=ago(runtime, 30))
    assert fail_stranded(runtime) == []
    change(runtime, job_id, not_before=ago(runtime, 61))
    assert len(fail_stranded(runtime)) == 1


def test_what_is_being_handed_out_is_not_failed(runtime: Runtime) -> None:
    """Its supervisor is silent, as one that stood still for a while."""
    job_id = stranded(runtime, 61)
    assert reserve(runtime, candidate(runtime, owned(runtime, job_id).job, "old"))
    assert fail_stranded(runtime) == []


def test_a_job_that_cannot_be_dealt_with_hides_none_behind_it(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    locked, free = (interrupted(runtime) for _ in range(2))
    requeue, fail_queued = runtime.jobs.requeue, runtime.jobs.fail_queued

    def locked_requeue(job: Job, **options: Any) -> Any:
        if job.id == locked:
            raise LockBusy("held by a stopped process")
        return requeue(job, **options)

    monkeypatch.setattr(runtime.jobs, "requeue", locked_requeue)
    assert restart_interrupted(runtime) == [owned(runtime, free).job.uuid]
    assert owned(runtime, locked).job.uuid in caplog.text

    first, second = stranded(runtime, 61), stranded(runtime, 61)

    def locked_fail(job_id: int, *args: Any, **options: Any) -> bool:
        if job_id == first:
            raise LockBusy("held by a stopped process")
        return fail_queued(job_id, *args, **options)

    monkeypatch.setattr(runtime.jobs, "fail_queued", locked_fail)
    assert fail_stranded(runtime) == [owned(runtime, second).job.uuid]
