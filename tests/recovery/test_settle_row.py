"""Looking at one row: what can be proven over is ended, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from flask_jobrunner.model.records import Identity, Outcome
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.identity import of_pid
from flask_jobrunner.protocol.report import dump_report
from flask_jobrunner.recovery.settle import holder_settled, settle_row
from flask_jobrunner.runtime import Runtime
from tests.helpers.reports import heard, printed, report
from tests.helpers.stores import (
    DEAD,
    ELSEWHERE,
    assert_sound,
    change,
    claim,
    end_as,
    everything,
    history,
    messages,
    queue,
    row,
    start,
    status_of,
    stopped_clock,
)

SECOND = 1_000_000


# -- looking at a row -------------------------------------------------------------------------


@pytest.fixture
def sleeper() -> Iterator[Identity]:
    """A process of this host that lives for as long as the test."""
    command = [sys.executable, "-I", "-S", "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        yield of_pid(process.pid)
        assert process.poll() is None, "a bystander was killed"
        process.kill()


def test_a_living_owner_is_never_judged(runtime: Runtime, sleeper: Identity) -> None:
    """However late its lease is and whatever the clock says."""
    won = start(runtime, worker=sleeper)
    change(runtime, won.fence.job_id, lease_until=1, heartbeat_at=1)
    dump = everything(runtime)
    for jump in (-3600, 0, 3600 * 24 * 365):
        with stopped_clock(runtime, row(runtime, won.fence.job_id)["started_at"] + jump * SECOND):
            settled = settle_row(runtime, won.fence.job_id)
            assert settled is not None
            assert settled.job.status == "running"
    assert everything(runtime) == dump


def test_a_dead_owner_is_judged_at_once_whatever_its_lease(runtime: Runtime) -> None:
    won = start(runtime, worker=DEAD)
    with heard(runtime.app) as signals:
        settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == ("interrupted", "owner_gone")
    assert signals == [("finished", settled.job.uuid, "interrupted")]
    assert_sound(runtime)


@pytest.mark.parametrize("change_of", [{"boot": "another-boot"}, {"ticks": 1}], ids=str)
def test_a_pid_of_somebody_else_by_now(
    runtime: Runtime, sleeper: Identity, change_of: dict[str, Any]
) -> None:
    won = start(runtime, worker=replace(sleeper, **change_of))
    settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert settled.job.status == "interrupted"


@pytest.mark.parametrize(("age", "ends"), [(0.0, False), (9.9, False), (10.0, True)])
def test_a_living_parent_has_time_for_its_report(
    runtime: Runtime, sleeper: Identity, age: float, ends: bool
) -> None:
    """A heartbeat and five seconds after the last renewal."""
    won = start(runtime, worker=DEAD, parent=sleeper)
    beat = row(runtime, won.fence.job_id)["heartbeat_at"]
    with stopped_clock(runtime, beat + round(age * SECOND)):
        settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status == "interrupted") == ends


@pytest.mark.parametrize(
    ("started", "late", "ends"),
    [(False, 0, False), (False, 1, True), (True, 1, False), (True, 3600 * SECOND, False)],
)
def test_an_owner_that_nobody_here_can_see(
    runtime: Runtime, started: bool, late: int, ends: bool
) -> None:
    """Nothing ran without a start marker; with one, only a sweeper that watched may say lost."""
    won = (start if started else claim)(runtime, worker=ELSEWHERE)
    lease = row(runtime, won.fence.job_id)["lease_until"]
    with stopped_clock(runtime, lease + late):
        settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == (
        ("interrupted", "not_started") if ends else ("running", None)
    )


@pytest.mark.parametrize("late", ["renewal", "start marker"])
def test_a_late_sign_of_life_between_read_and_write_saves_the_job(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    won = claim(runtime, worker=ELSEWHERE)
    change(runtime, won.fence.job_id, lease_until=1)
    look = identity.look

    def looks_and_is_overtaken(seen: Identity, instance: str | None = None) -> Any:
        if late == "renewal":
            runtime.ownership.beat(won.fence)
        else:
            runtime.ownership.mark_started(won.fence, None)
        return look(seen, instance)

    monkeypatch.setattr(identity, "look", looks_and_is_overtaken)
    settle_row(runtime, won.fence.job_id)
    assert status_of(runtime, won.fence.job_id)[0] == "running"
    assert len(history(runtime, won.fence.job_id)) == 2


def test_a_spooled_report_is_found_by_whoever_looks(runtime: Runtime) -> None:
    won = start(runtime, worker=DEAD)
    folder = runtime.make_spool_dir()
    told = report(won, stdout=printed("last words\n"))
    (folder / f"{told.uuid}.1.json").write_bytes(dump_report(told))
    with heard(runtime.app) as signals:
        settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == ("interrupted", "process_died")
    assert messages(runtime, won.fence.job_id)[0][1] == "last words"
    assert signals == [("finished", settled.job.uuid, "interrupted")]


def test_deadlines_of_a_waiting_job(runtime: Runtime) -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
        ({}, {"claim_deadline": 1}, "launch_timeout"),
        ({"credential_hash": None}, {"claim_deadline": 1}, "never_launched"),
        ({"queue_budget": 60.0}, {"queue_deadline": 1}, "queue_timeout"),
        ({"queue_budget": 60.0}, {"claim_deadline": 1, "queue_deadline": 1}, "launch_timeout"),
        ({"queue_budget": 60.0}, {}, None),
    ]
    for values, changes, reason in cases:
        job = queue(runtime, **values)
        change(runtime, job.id, **changes)
        with heard(runtime.app) as signals:
            settled = settle_row(runtime, job.id)
        assert settled is not None
        assert settled.job.error_reason_code == reason
        assert settled.job.status == ("failed" if reason else "queued")
        assert len(signals) == (reason is not None)


def test_an_ended_job_is_left_alone(runtime: Runtime) -> None:
    won = start(runtime, worker=DEAD)
    runtime.endings.finish(won.fence, Outcome(status="succeeded"))
    dump = everything(runtime)
    assert settle_row(runtime, won.fence.job_id) is not None
    assert settle_row(runtime, 10**9) is None
    assert settle_row(runtime, "no such job") is None
    assert everything(runtime) == dump


def test_many_look_at_once_and_one_ends_it(runtime: Runtime) -> None:
    won = start(runtime, worker=DEAD)

    def look(_number: int) -> str:
        with runtime.app.app_context():
            settled = settle_row(runtime, won.fence.job_id)
            assert settled is not None
            return settled.job.status

    with heard(runtime.app) as signals, ThreadPoolExecutor(6) as threads:
        list(threads.map(look, range(6)))
    assert status_of(runtime, won.fence.job_id)[0] == "interrupted"
    assert [action for action, *_ in history(runtime, won.fence.job_id)].count("end") == 1
    assert len(signals) == 1
    assert_sound(runtime)


def test_who_holds_a_lock_after_settling(runtime: Runtime, sleeper: Identity) -> None:
    assert holder_settled(runtime, "free") is None

    dead = start(runtime, queue(runtime, lock_key="dead"), worker=DEAD)
    assert holder_settled(runtime, "dead") is None
    assert status_of(runtime, dead.fence.job_id)[0] == "interrupted"

    alive = start(runtime, queue(runtime, lock_key="alive"), worker=sleeper)
    holder = holder_settled(runtime, "alive")
    assert holder is not None
    assert holder.id == alive.fence.job_id

    end_as(runtime, start(runtime, queue(runtime, lock_key="lost"), worker=ELSEWHERE), "lost")
    holder = holder_settled(runtime, "lost")
    assert holder is not None
    assert holder.status == "lost"
