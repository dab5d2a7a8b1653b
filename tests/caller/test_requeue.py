"""What `jobs.requeue` answers in every case."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from flask_jobrunner.caller.requeue import requeue
from flask_jobrunner.model.errors import (
    DatabaseAway,
    InvalidPayload,
    LaunchUnknown,
    LockBusy,
    UncommittedChanges,
    UnknownJobType,
)
from flask_jobrunner.model.records import Job, Outcome
from flask_jobrunner.protocol.identity import this_process
from flask_jobrunner.recovery.verdict import lost
from flask_jobrunner.runtime import Runtime
from tests.helpers import launchers
from tests.helpers.launchers import FakeLauncher
from tests.helpers.reports import heard
from tests.helpers.stores import (
    ELSEWHERE,
    assert_sound,
    change,
    everything,
    history,
    owned,
    queue,
    row,
    start,
)

TYPE = "host.nothing"
DEAD = replace(this_process(), pid=2**22 - 1, ticks=1)


def ended(runtime: Runtime, status: str = "failed", **values: Any) -> Job:
    """A job that came to a terminal status."""
    runtime.meta.ensure()
    job = queue(runtime, job_type=TYPE, **values)
    if status == "queued":
        return job
    won = start(runtime, job, worker=ELSEWHERE if status == "lost" else None)
    if status in {"cancel_requested", "cancelled"}:
        runtime.jobs.request_cancel(job.id, 1, None)
    if status == "lost":
        seen = owned(runtime, job)
        assert runtime.endings.end_dead(seen, lost(seen, 18.0))
    elif status not in {"running", "cancel_requested"}:
        assert runtime.endings.finish(won.fence, Outcome(status=status))  # type: ignore[arg-type]
    return owned(runtime, job).job


@pytest.mark.parametrize("status", ["failed", "interrupted", "cancelled"])
def test_the_next_attempt_of_the_same_row(
    runtime: Runtime, launcher: FakeLauncher, status: str
) -> None:
    job = ended(runtime, status, lock_key="k")
    launcher.deed = launchers.claimed
    with heard(runtime.app) as signals:
        result = requeue(runtime, job.id, actor="bob")
    assert (result.status, result.ok, result.reason_code) == ("started", True, None)
    assert result.job is not None
    assert (result.job.id, result.job.attempt, result.job.status) == (job.id, 2, "running")
    envelope = launcher.last.envelope
    assert (envelope.attempt, envelope.job_uuid) == (2, job.uuid)
    assert launcher.last.waited == [10.0]
    assert history(runtime, job.id)[-2:] == [
        ("requeue", status, "queued"),
        ("claim", "queued", "running"),
    ]
    assert runtime.events.of(job.id)[-2].actor == "bob"
    assert signals == []
    json.dumps(result.to_dict())
    assert_sound(runtime)


@pytest.mark.parametrize("status", ["queued", "running", "cancel_requested", "succeeded"])
def test_what_cannot_run_again(runtime: Runtime, launcher: FakeLauncher, status: str) -> None:
    job = ended(runtime, status)
    dump = everything(runtime)
    result = requeue(runtime, job.uuid, confirm_lost=True)
    assert (result.status, result.ok) == ("not_requeueable", False)
    assert result.job is not None
    assert result.job.status == status
    assert status in (result.message or "")
    assert everything(runtime) == dump
    assert launcher.launched == []


def test_a_lost_job_wants_a_confirmation(runtime: Runtime, launcher: FakeLauncher) -> None:
    job = ended(runtime, "lost", lock_key="k")
    result = requeue(runtime, job.id)
    assert result.status == "not_requeueable"
    assert "may still be working" in (result.message or "")
    assert requeue(runtime, job.id, confirm_lost=True).status == "launching"
    holder = runtime.jobs.holder("k")
    assert holder is not None
    assert holder.job.attempt == 2


def test_no_such_job(runtime: Runtime, launcher: FakeLauncher) -> None:
    for ref in (10**9, "01890000-0000-7000-8000-000000000000", 0):
        assert requeue(runtime, ref).status == "not_found"


def test_a_running_job_whose_owner_is_dead_is_settled_first(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    won = start(runtime, queue(runtime, job_type=TYPE), worker=DEAD)
    assert requeue(runtime, won.fence.job_id).status == "launching"
    assert history(runtime, won.fence.job_id)[-2:] == [
        ("end", "running", "interrupted"),
        ("requeue", "interrupted", "queued"),
    ]


def test_the_lock_is_held_by_another(runtime: Runtime, launcher: FakeLauncher) -> None:
    job = ended(runtime, lock_key="k")
    holder = queue(runtime, lock_key="k")
    dump = everything(runtime)
    result = requeue(runtime, job.id)
    assert (result.status, result.ok) == ("already_active", False)
    assert result.job is not None
    assert result.job.uuid == holder.uuid
    assert everything(runtime) == dump
    assert launcher.launched == []


def test_a_holder_that_is_over_makes_way(runtime: Runtime, launcher: FakeLauncher) -> None:
    job = ended(runtime, lock_key="k")
    dead = start(runtime, queue(runtime, lock_key="k"), worker=DEAD)
    assert requeue(runtime, job.id).status == "launching"
    assert owned(runtime, dead.fence.job_id).job.status == "interrupted"
    assert_sound(runtime)


def test_a_lock_that_changes_hands_all_the_time_is_busy(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ended(runtime, lock_key="k")
    monkeypatch.setattr(runtime.jobs, "requeue", lambda *_, **__: None)
    with pytest.raises(LockBusy):
        requeue(runtime, job.id)


def test_somebody_else_was_faster(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ended(runtime)
    move = runtime.jobs.requeue

    def overtaken(*arguments: Any, **values: Any) -> Any:
        assert move(*arguments, **values | {"credential_hash": "f" * 64})
        return move(*arguments, **values)

    monkeypatch.setattr(runtime.jobs, "requeue", overtaken)
    result = requeue(runtime, job.id)
    assert result.status == "not_requeueable"
    assert "queued" in (result.message or "")
    assert row(runtime, job.id)["attempt"] == 2
    assert launcher.launched == []


def test_a_launch_that_fails_ends_the_new_attempt_only(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    job = ended(runtime, "interrupted", lock_key="k")
    launcher.fail()
    result = requeue(runtime, job.id)
    assert (result.status, result.reason_code) == ("launch_failed", "launch_failed")
    assert result.job is not None
    assert (result.job.status, result.job.attempt) == ("failed", 2)
    assert runtime.jobs.holder("k") is None
    assert [attempt.attempt for attempt in runtime.attempts.of(job.id)] == [1]
    # And it may be requeued again.
    launcher.error = None
    assert requeue(runtime, job.id).status == "launching"
    assert launcher.last.envelope.attempt == 3
    assert_sound(runtime)


def test_the_credential_of_an_earlier_attempt_opens_nothing(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    job = ended(runtime)
    requeue(runtime, job.id, wait=False)
    first = launcher.last
    runtime.jobs.cancel_queued(job.id, 2, None)
    requeue(runtime, job.id, wait=False)
    assert launchers.take(first) is None
    assert launchers.take(launcher.last) is not None


def test_away_after_the_commit_it_is_unknown(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ended(runtime)
    move = runtime.jobs.requeue

    def away(*_: Any, **__: Any) -> Any:
        raise DatabaseAway("It is gone.")

    def moves_and_is_gone(*arguments: Any, **values: Any) -> Any:
        moved = move(*arguments, **values)
        monkeypatch.setattr(runtime.jobs, "get", away)
        return moved

    monkeypatch.setattr(runtime.jobs, "requeue", moves_and_is_gone)
    with pytest.raises(LaunchUnknown) as unknown:
        requeue(runtime, job.id)
    assert unknown.value.job_uuid == job.uuid
    # The launch went on: what was committed is not thrown away.
    assert launcher.last.envelope.attempt == 2


def test_bad_input_moves_nothing(runtime: Runtime, launcher: FakeLauncher) -> None:
    job = ended(runtime)
    dump = everything(runtime)
    bad: list[dict[str, Any]] = [
        {"wait": -1},
        {"wait": math.nan},
        {"actor": "x" * 192},
        {"actor": 7},
    ]
    for values in bad:
        with pytest.raises(InvalidPayload):
            requeue(runtime, job.id, **values)
    assert everything(runtime) == dump


def test_a_type_that_is_not_registered_any_more(runtime: Runtime, launcher: FakeLauncher) -> None:
    job = ended(runtime)
    change(runtime, job.id, job_type="removed.job")
    dump = everything(runtime)
    with pytest.raises(UnknownJobType, match=r"removed\.job"):
        requeue(runtime, job.id)
    assert everything(runtime) == dump


def test_uncommitted_changes_are_refused(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.host_app import Entry, db

    job = ended(runtime)
    dump = everything(runtime)
    db.session.add(Entry(name="pending"))
    with pytest.raises(UncommittedChanges):
        requeue(runtime, job.id)
    db.session.rollback()
    assert everything(runtime) == dump


@pytest.mark.parametrize(
    "runtime_config", [{"JOBRUNNER_QUEUE_BUDGET": 60, "JOBRUNNER_REVISION": "r2"}]
)
def test_it_runs_under_the_settings_of_now(runtime: Runtime, launcher: FakeLauncher) -> None:
    job = ended(runtime)
    requeue(runtime, job.id, wait=False)
    after = row(runtime, job.id)
    assert (after["revision"], after["config_digest"]) == ("r2", runtime.config.digest)
    assert after["queue_deadline"] == after["queued_at"] + 60_000_000
    assert launchers.take(launcher.last) is not None
