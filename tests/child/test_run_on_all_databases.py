"""Jobs in real processes, on all three databases: output, steps, stops, fencing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import text

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.model.results import StatusResult
from tests.helpers.waiting import eventually
from tests.host_acts import script

QUICK = {"JOBRUNNER_HEARTBEAT": 0.5, "JOBRUNNER_LEASE": 3}


@pytest.fixture
def host_config() -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_HANDLERS": {"rough.gil": "tests.child.rough:hold_gil"}}


def ended(jobs: JobRunner, job: Job | None, timeout: float = 60) -> tuple[Job, StatusResult]:
    assert job is not None
    done = jobs.wait(job.uuid, timeout)
    assert done.is_terminal, done
    return done, jobs.status(job.uuid, after_seq=0, limit=1000)


def running(jobs: JobRunner, job: Job | None, message: str) -> Job:
    """The job, once it has logged `message`."""
    assert job is not None
    uuid = job.uuid

    def logged() -> bool:
        return any(line.message == message for line in jobs.status(uuid).logs)

    eventually(logged, timeout=30, message=lambda: f"{jobs.status(uuid)}")
    return job


def worker_pid(app: Flask, job: Job) -> int:
    owned = app.extensions["jobrunner"].jobs.owned(job.uuid)
    assert owned.worker.pid
    return int(owned.worker.pid)


def test_the_smoke_job_has_exactly_twenty_rows(host_jobs: JobRunner) -> None:
    acts: list[tuple[object, ...]] = [("say", "info", "begins")]
    for number in range(1, 17):
        acts += [("step", f"step-{number}", f"Step {number}", number, 16), ("progress", number, 16)]
        acts += [("print", f"step {number} of 16"), ("pause", 0.02)]
    acts += [("step", "done", "Done", 16, 16), ("say", "info", "ends"), ("return", {"done": 16})]
    job, status = ended(host_jobs, host_jobs.start("host.script", script(*acts)).job)
    assert job.status == "succeeded"
    assert status.result == {"done": 16}
    assert (job.current_step_key, job.step_index, job.step_total) == ("done", 16, 16)
    assert (job.progress_done, job.progress_total) == (16, 16)
    assert len(status.logs) == 20
    assert [line.seq for line in status.logs] == list(range(1, 21))
    assert [line.message for line in status.logs[2:18]] == [f"step {n} of 16" for n in range(1, 17)]
    assert [line.step_key for line in status.logs[2:18]] == [f"step-{n}" for n in range(1, 17)]
    assert {line.stream for line in status.logs[2:18]} == {"stdout"}
    assert status.logs[0].message.startswith("Started host.script, attempt 1: process ")
    assert status.logs[-1].message == "Succeeded"


def test_every_kind_of_output_becomes_rows(host_jobs: JobRunner) -> None:
    acts = script(
        ("step", "all", "All", 1, 1),
        ("print", "printed"),
        ("print", "to stderr", "stderr"),
        ("say", "debug", "ctx debug"),
        ("say", "error", "ctx error", {"n": 1}),
        ("log", "warning", "logged"),
        ("log", "debug", "logged debug"),
        ("warn", "careful"),
        ("c_print", "from C\n"),
        ("program", "sh", "-c", "echo program; echo its errors >&2"),
        ("print", "password=hunter2 is hidden"),
        ("print", "no end of line", "stdout", ""),
        ("return", 1),
    )
    _, status = ended(host_jobs, host_jobs.start("host.script", acts).job)
    rows = {line.message: line for line in status.logs}
    assert len(rows) == len(status.logs) == 14
    kinds = [
        ("printed", "stdout", "info"),
        ("to stderr", "stderr", "info"),
        ("ctx debug", "", "debug"),
        ("ctx error", "", "error"),
        ("logged", "", "warning"),
        ("logged debug", "", "debug"),
        ("from C", "stdout", "info"),
        ("program", "stdout", "info"),
        ("its errors", "stderr", "info"),
        ("password=******** is hidden", "stdout", "info"),
        ("no end of line", "stdout", "info"),
    ]
    for message, stream, level in kinds:
        assert (rows[message].stream, rows[message].level) == (stream, level)
        assert rows[message].step_key == "all"
    (warned,) = [line for line in status.logs if "UserWarning: careful" in line.message]
    assert (warned.level, warned.stream) == ("warning", "")
    assert rows["ctx error"].context == {"n": 1}
    assert rows["logged"].context == {"logger": "host"}
    assert status.job is not None
    assert (status.job.warning_count, status.job.error_count) == (2, 1)


def test_a_cancelled_job_keeps_what_it_returned(host_jobs: JobRunner) -> None:
    job = host_jobs.start("host.script", script(("steps", 1200, 0.1))).job
    running(host_jobs, job, "step 2 of 1200")
    assert job is not None
    assert host_jobs.cancel(job.uuid).status == "cancel_requested"
    done, status = ended(host_jobs, job)
    assert done.status == "cancelled"
    assert status.result["completed"] >= 2
    assert [line.message for line in status.logs[-2:]] == ["asked to stop", "Cancelled"]
    assert status.logs[-2].level == "warning"


def test_a_cancel_that_raises_ends_the_same(host_jobs: JobRunner) -> None:
    acts = script(("print", "waiting"), ("wait_for_cancel",), ("raise_if_cancelled",))
    job = running(host_jobs, host_jobs.start("host.script", acts).job, "waiting")
    host_jobs.cancel(job.uuid)
    done, _ = ended(host_jobs, job)
    assert (done.status, done.stop_reason) == ("cancelled", "cancel")


def test_another_exception_after_a_cancel_fails_and_keeps_the_request(
    host_jobs: JobRunner,
) -> None:
    acts = script(("print", "waiting"), ("wait_for_cancel",), ("raise", "ValueError", "mine"))
    job = running(host_jobs, host_jobs.start("host.script", acts).job, "waiting")
    host_jobs.cancel(job.uuid)
    done, _ = ended(host_jobs, job)
    assert (done.status, done.error_reason_code) == ("failed", "handler_raised")
    assert done.stop_reason == "cancel"


def test_a_deaf_handler_with_a_cancel_grace_is_ended(host_jobs: JobRunner, tmp_path: Path) -> None:
    acts = script(("print", "deaf"), ("wait_for_file", str(tmp_path / "never")))
    job = running(host_jobs, host_jobs.start("host.stubborn", acts).job, "deaf")
    host_jobs.cancel(job.uuid)
    done, _ = ended(host_jobs, job)
    assert (done.status, done.error_reason_code) == ("cancelled", "cancel_forced")


def test_the_run_budget_asks_first(host_jobs: JobRunner) -> None:
    acts = script(("wait_for_cancel",), ("print", "asked"), ("raise_if_cancelled",))
    done, status = ended(host_jobs, host_jobs.start("host.budget", acts).job)
    assert (done.status, done.error_reason_code) == ("failed", "run_timeout")
    assert done.stop_reason == "run_timeout"
    assert "asked" in [line.message for line in status.logs]


def test_a_result_returned_after_the_budget_counts(host_jobs: JobRunner) -> None:
    acts = script(("wait_for_cancel",), ("return", 5))
    done, status = ended(host_jobs, host_jobs.start("host.budget", acts).job)
    assert (done.status, status.result) == ("succeeded", 5)


@pytest.mark.parametrize(
    ("last", "status", "reason"),
    [
        (("raise_if_cancelled",), "interrupted", "shutdown"),
        (("return", 7), "succeeded", None),
        (("raise", "KeyboardInterrupt"), "interrupted", "shutdown"),
    ],
)
def test_a_term_asks_the_handler_to_stop(
    host_app: Flask, host_jobs: JobRunner, last: tuple[object, ...], status: str, reason: str | None
) -> None:
    acts = script(("print", "waiting"), ("wait_for_cancel",), last)
    job = running(host_jobs, host_jobs.start("host.script", acts).job, "waiting")
    os.kill(worker_pid(host_app, job), signal.SIGTERM)
    done, _ = ended(host_jobs, job)
    assert (done.status, done.error_reason_code) == (status, reason)
    assert done.stop_reason == "shutdown"


def test_a_second_term_ends_the_process(
    host_app: Flask, host_jobs: JobRunner, tmp_path: Path
) -> None:
    acts = script(("print", "deaf"), ("wait_for_file", str(tmp_path / "never")))
    job = running(host_jobs, host_jobs.start("host.script", acts).job, "deaf")
    pid = worker_pid(host_app, job)
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: host_jobs.status(job.uuid).job.stop_reason == "shutdown")  # type: ignore[union-attr]  # it is there
    assert host_jobs.status(job.uuid).job.is_active  # type: ignore[union-attr]  # the same
    os.kill(pid, signal.SIGTERM)
    done, _ = ended(host_jobs, job)
    assert done.status == "interrupted"


def test_an_owner_that_lost_the_job_writes_nothing_and_is_told(
    host_app: Flask, host_jobs: JobRunner, tmp_path: Path
) -> None:
    """The row is given to somebody else behind its back, with its status left as it is."""
    go, checked = tmp_path / "go", tmp_path / "checked"
    acts = script(
        ("print", "before"),
        ("wait_for_cancel",),
        ("print", "after"),
        ("wait_for_file", str(go)),
        ("check",),
        ("return", 1),
        ledger=checked,
    )
    job = running(host_jobs, host_jobs.start("host.script", acts).job, "before")
    database = host_app.extensions["jobrunner"].database
    with database.engine.begin() as connection:
        connection.execute(
            text("UPDATE jobrun_jobs SET worker_token = 'of another' WHERE id = :id"),
            {"id": job.id},
        )
    pid = worker_pid(host_app, job)
    go.touch()
    eventually(lambda: checked.exists() and "end 1" in checked.read_text(), timeout=60)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), timeout=60)
    status = host_jobs.status(job.uuid)
    assert status.job is not None
    # Whoever looks at the row may have found by now that this process is gone.
    assert status.job.status in {"running", "interrupted"}
    assert (status.result, status.job.handler_started_at is None) == (None, False)


def test_a_write_transaction_of_twenty_seconds(host_jobs: JobRunner) -> None:
    acts = script(("hold_write", 20, 100), ("return", "held"))
    job, status = ended(host_jobs, host_jobs.start("host.script", acts).job, timeout=90)
    assert (job.status, status.result) == ("succeeded", "held")
    held = [line.message for line in status.logs if line.stream == "stdout"]
    assert held == [f"holding {number}" for number in range(1, 101)]
    assert job.progress_done == 100


def test_a_hundred_thousand_lines_are_numbered_without_a_gap(
    host_app: Flask, host_jobs: JobRunner
) -> None:
    acts = script(("print_lines", 100_000), ("return", 1))
    job, _ = ended(host_jobs, host_jobs.start("host.script", acts).job, timeout=120)
    assert job.status == "succeeded"
    with host_app.extensions["jobrunner"].database.engine.connect() as connection:
        count, low, high = connection.execute(
            text("SELECT count(*), min(seq), max(seq) FROM jobrun_logs WHERE job_id = :id"),
            {"id": job.id},
        ).one()
        missing = connection.execute(
            text("SELECT count(*) FROM jobrun_logs WHERE job_id = :id AND message LIKE 'line %'"),
            {"id": job.id},
        ).scalar()
    assert (count, low, high) == (100_002, 1, 100_002)
    assert missing == 100_000


def test_a_c_function_that_prints_while_it_holds_the_gil(host_jobs: JobRunner) -> None:
    acts = script(("print", "before"), ("c_write_holding_gil", 900_000), ("print", "after"))
    job, status = ended(host_jobs, host_jobs.start("host.script", acts).job)
    assert job.status == "succeeded"
    assert status.logs[1].message == "before"
    assert host_jobs.status(job.uuid, limit=2).logs[0].message == "after"
    assert status.job is not None
    assert host_jobs.status(job.uuid).last_log_seq >= 9000


def test_a_gil_held_longer_than_the_lease_costs_nothing(host_jobs: JobRunner) -> None:
    job, status = ended(host_jobs, host_jobs.start("rough.gil", {"seconds": 5}).job)
    assert job.status == "succeeded"
    assert [line.message for line in status.logs[1:3]] == ["holding", "released"]


def test_the_error_row_holds_the_whole_message(host_jobs: JobRunner) -> None:
    message = "é" * 40_000
    acts = script(("raise", "ValueError", message))
    job, status = ended(host_jobs, host_jobs.start("host.script", acts).job)
    assert job.error_message is not None
    assert len(job.error_message.encode()) == 60_000
    errors = [line for line in status.logs[:-1] if line.level == "error"]
    assert "".join(line.message for line in errors) == message
    assert errors[0].context == {
        "error_class": "ValueError",
        "error_reason_code": "handler_raised",
    }
    assert status.error is not None
    assert status.error["class"] == "ValueError"


def test_uncommitted_changes_leave_a_warning(host_jobs: JobRunner) -> None:
    acts = script(("leave_uncommitted", "x"), ("return", 1))
    job, status = ended(host_jobs, host_jobs.start("host.script", acts).job)
    assert job.status == "succeeded"
    (warning,) = [line for line in status.logs if line.level == "warning"]
    assert "uncommitted changes in db.session" in warning.message
    assert "host_entries" in warning.message
