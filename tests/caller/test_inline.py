"""`run_inline`: the same row and handler in the process that asks, on all three databases."""

from __future__ import annotations

import logging
import threading
import warnings
from typing import Any

import pytest
from flask import Flask, current_app

from flask_jobrunner import (
    InvalidPayload,
    JobCancelled,
    JobContext,
    JobRunner,
    UncommittedChanges,
    UnknownJobType,
    job_created,
    job_finished,
    job_started,
)
from tests.host_acts import script


@pytest.fixture
def host_config() -> dict[str, object]:
    return {
        "JOBRUNNER_HANDLERS": {
            "inline.talk": f"{__name__}:talk",
            "inline.cancel": f"{__name__}:cancel_itself",
            "inline.nested": f"{__name__}:nested",
        }
    }


def talk(ctx: JobContext) -> dict[str, Any]:
    """Says something in every way that is kept inline, and in one that is not."""
    ctx.info("from the context", n=1)
    ctx.set_step("half", "Half", 1, 2)
    ctx.progress(1, 2)
    logging.getLogger("inline").warning("from logging, token=hunter2")
    other = threading.Thread(target=lambda: logging.getLogger("inline").error("another thread"))
    other.start()
    other.join()
    print("printed, and not kept")
    return {"same_app": ctx.app.name == current_app.name}


def cancel_itself(ctx: JobContext) -> None:
    """Asked to stop by itself, through the caller's own API."""
    from tests.host_app import jobs

    jobs.cancel(ctx.job_uuid)
    ctx.info("asked", stop=ctx.is_cancellation_requested())
    raise JobCancelled


def nested(ctx: JobContext) -> str:
    """Starts the same lock key from inside."""
    from tests.host_app import jobs

    return jobs.run_inline("host.nothing", lock_key="nested").status


def test_a_job_runs_here_and_leaves_the_usual_row(host_jobs: JobRunner) -> None:
    result = host_jobs.run_inline(
        "inline.talk", title="T", owner="ann", reference="r:1", actor="bob", lock_key="k"
    )
    assert (result.status, result.ok, result.error) == ("succeeded", True, None)
    assert result.result == {"same_app": True}
    job = result.job
    assert job is not None
    assert (job.title, job.owner, job.reference, job.actor) == ("T", "ann", "r:1", "bob")
    assert (job.current_step_key, job.progress_done, job.progress_total) == ("half", 1, 2)
    lines = host_jobs.status(job.uuid).logs
    assert [line.message for line in lines[1:]] == [
        "from the context",
        "from logging, token=********",
        "Succeeded",
    ]
    assert [(line.level, line.step_key) for line in lines[1:3]] == [
        ("info", None),
        ("warning", "half"),
    ]
    assert lines[0].message.startswith("Started inline.talk, attempt 1")
    assert host_jobs.run_inline("host.nothing", lock_key="k").status == "succeeded"


@pytest.mark.parametrize(
    ("acts", "reason", "error_class"),
    [
        ((("raise", "ValueError", "v"),), "handler_raised", "ValueError"),
        ((("raise", "KeyboardInterrupt"),), "handler_raised", "KeyboardInterrupt"),
        ((("exit", 0),), "handler_exited", "SystemExit"),
        ((("return_kind", "object"),), "result_not_encodable", None),
        ((("return_kind", "large"),), "result_too_large", None),
    ],
)
def test_failures_are_results_not_exceptions(
    host_jobs: JobRunner, acts: tuple[tuple[Any, ...], ...], reason: str, error_class: str | None
) -> None:
    result = host_jobs.run_inline("host.script", script(*acts))
    assert (result.status, result.ok, result.reason_code) == ("failed", False, reason)
    assert result.error is not None
    assert (result.error["class"], result.error["reason_code"]) == (error_class, reason)
    assert result.job is not None
    assert result.job.error_message == result.message


def test_results_are_decoded(host_jobs: JobRunner) -> None:
    result = host_jobs.run_inline("host.script", script(("return", [1, {"a": None}])))
    assert result.result == [1, {"a": None}]
    assert result.to_dict()["status"] == "succeeded"


def test_the_payload_goes_through_its_validator(host_jobs: JobRunner) -> None:
    assert host_jobs.run_inline("host.validated", {"count": "5"}).result == 5
    with pytest.raises(InvalidPayload):
        host_jobs.run_inline("host.validated", {"count": "many"})
    with pytest.raises(UnknownJobType):
        host_jobs.run_inline("no.such")
    assert len(host_jobs.find(job_type="host.validated").jobs) == 1


def test_a_cancel_reaches_it(host_jobs: JobRunner) -> None:
    result = host_jobs.run_inline("inline.cancel")
    assert (result.status, result.ok) == ("cancelled", False)
    assert result.job is not None
    (asked,) = [line for line in host_jobs.status(result.job.uuid).logs if line.message == "asked"]
    assert asked.context == {"stop": True}


def test_a_held_lock_is_told_with_the_holders_status(host_jobs: JobRunner) -> None:
    result = host_jobs.run_inline("inline.nested", lock_key="nested")
    assert result.result == "running"
    assert host_jobs.run_inline("host.nothing", lock_key="nested").status == "succeeded"


def test_uncommitted_changes_are_refused_before_a_row_exists(host_jobs: JobRunner) -> None:
    from tests.host_app import Entry, db

    db.session.add(Entry(name="mine"))
    with pytest.raises(UncommittedChanges):
        host_jobs.run_inline("host.nothing")
    assert host_jobs.find().jobs == []
    db.session.rollback()


def test_the_handler_has_a_session_of_its_own(host_jobs: JobRunner) -> None:
    from tests.host_app import Entry, db

    assert host_jobs.run_inline("host.script", script(("add_entry", "theirs"))).ok
    assert db.session.query(Entry).count() == 1
    result = host_jobs.run_inline("host.script", script(("leave_uncommitted", "lost")))
    assert result.job is not None
    assert result.job.warning_count == 1
    db.session.rollback()
    assert db.session.query(Entry).count() == 1


def test_signals_are_sent_here(host_app: Flask, host_jobs: JobRunner) -> None:
    seen: list[tuple[str, str]] = []

    def listen(name: str) -> Any:
        def receive(_: Any, job: Any) -> None:
            seen.append((name, job.status))

        return receive

    receivers = {
        signal: listen(name)
        for name, signal in (
            ("created", job_created),
            ("started", job_started),
            ("finished", job_finished),
        )
    }
    for signal, receiver in receivers.items():
        signal.connect(receiver, host_app)
    host_jobs.run_inline("host.nothing")
    for signal, receiver in receivers.items():
        signal.disconnect(receiver, host_app)
    assert seen == [("created", "queued"), ("started", "running"), ("finished", "succeeded")]


def test_nothing_is_left_behind(host_jobs: JobRunner) -> None:
    before = logging.getLogger().handlers[:]
    threads = threading.active_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        host_jobs.run_inline("inline.talk")
    assert logging.getLogger().handlers == before
    assert threading.active_count() <= threads + 1
