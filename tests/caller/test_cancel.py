"""What `jobs.cancel` answers in every case; it asks, and ends no process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flask_jobrunner.caller.cancel import cancel
from flask_jobrunner.model.errors import InvalidPayload
from flask_jobrunner.model.records import Outcome
from flask_jobrunner.runtime import Runtime
from tests.helpers.reports import heard
from tests.helpers.stores import assert_sound, everything, history, owned, queue, start, try_claim


def test_a_waiting_job_is_cancelled(runtime: Runtime) -> None:
    job = queue(runtime, lock_key="k")
    with heard(runtime.app) as signals:
        result = cancel(runtime, job.uuid, actor="ann")
    assert (result.status, result.ok) == ("cancelled", True)
    assert (result.previous_status, result.new_status) == ("queued", "cancelled")
    assert result.job is not None
    assert result.job.stop_reason == "cancel"
    assert result.job.finished_at is not None
    assert signals == [("finished", job.uuid, "cancelled")]
    assert runtime.events.of(job.id)[-1].actor == "ann"
    assert runtime.jobs.holder("k") is None
    assert try_claim(runtime, job) is None
    json.dumps(result.to_dict())
    assert_sound(runtime)


def test_a_running_job_is_asked(runtime: Runtime) -> None:
    won = start(runtime, queue(runtime, lock_key="k"))
    with heard(runtime.app) as signals:
        result = cancel(runtime, won.fence.job_id, actor="ann")
    assert (result.status, result.ok) == ("cancel_requested", True)
    assert (result.previous_status, result.new_status) == ("running", "cancel_requested")
    assert signals == [("cancel_requested", won.owned.job.uuid, "cancel_requested")]
    assert runtime.jobs.holder("k") is not None


def test_asked_again_it_says_so_and_the_first_stays(runtime: Runtime) -> None:
    won = start(runtime)
    cancel(runtime, won.fence.job_id, actor="ann")
    dump = everything(runtime)
    with heard(runtime.app) as signals:
        result = cancel(runtime, won.fence.job_id, actor="bob")
    assert (result.status, result.ok) == ("already_cancel_requested", True)
    assert (result.previous_status, result.new_status) == ("cancel_requested", "cancel_requested")
    assert everything(runtime) == dump
    assert signals == []


@pytest.mark.parametrize("status", ["succeeded", "failed", "interrupted", "cancelled"])
def test_an_ended_job_is_left_alone(runtime: Runtime, status: Any) -> None:
    won = start(runtime)
    if status == "cancelled":
        cancel(runtime, won.fence.job_id)
    runtime.endings.finish(won.fence, Outcome(status=status))
    dump = everything(runtime)
    with heard(runtime.app) as signals:
        result = cancel(runtime, won.fence.job_id)
    assert (result.status, result.ok) == ("already_terminal", False)
    assert (result.previous_status, result.new_status) == (status, status)
    assert everything(runtime) == dump
    assert signals == []


def test_no_such_job(runtime: Runtime) -> None:
    result = cancel(runtime, 10**9)
    assert (result.status, result.ok, result.job) == ("not_found", False, None)
    assert result.previous_status is result.new_status is None


def test_a_job_that_moves_on_meanwhile_is_decided_anew(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queue(runtime)
    move, claims = runtime.jobs.cancel_queued, [True]

    def claimed_first(*arguments: Any) -> bool:
        if claims and claims.pop():
            assert try_claim(runtime, job) is not None
        return move(*arguments)

    monkeypatch.setattr(runtime.jobs, "cancel_queued", claimed_first)
    result = cancel(runtime, job.id)
    assert (result.status, result.previous_status) == ("cancel_requested", "running")
    assert [to for _, _, to in history(runtime, job.id)] == [
        *("queued", "running", "cancel_requested")
    ]


def test_who_acts_is_checked_before_anything_moves(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queue(runtime)
    dump = everything(runtime)
    for actor in ("x" * 192, "a\0", 7):
        with pytest.raises(InvalidPayload, match="actor"):
            cancel(runtime, job.id, actor=actor)  # type: ignore[arg-type]
    assert everything(runtime) == dump
    monkeypatch.setattr(runtime.hooks, "actor", lambda: "x" * 500)
    assert cancel(runtime, job.id).status == "cancelled"
    assert runtime.events.of(job.id)[-1].actor == "x" * 191


def test_what_the_handler_returned_is_kept(runtime: Runtime) -> None:
    won = start(runtime)
    cancel(runtime, won.fence.job_id)
    ended = runtime.endings.finish(won.fence, Outcome(status="succeeded", result_json="[1]"))
    assert ended is not None
    assert (ended.job.status, ended.result_json) == ("cancelled", "[1]")
    assert owned(runtime, won.fence.job_id).job.stop_reason == "cancel"


def test_a_job_that_ends_right_after_it_was_asked_was_still_asked(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer tells what this call did; the record what is true by now."""
    won = start(runtime)
    ask = runtime.jobs.request_cancel

    def ask_and_end(job_id: int, attempt: int, actor: str | None) -> bool:
        asked = ask(job_id, attempt, actor)
        assert runtime.endings.finish(won.fence, Outcome(status="cancelled"))
        return asked

    monkeypatch.setattr(runtime.jobs, "request_cancel", ask_and_end)

    result = cancel(runtime, won.fence.job_id)

    assert (result.previous_status, result.new_status) == ("running", "cancel_requested")
    assert result.job is not None
    assert result.job.status == "cancelled"
