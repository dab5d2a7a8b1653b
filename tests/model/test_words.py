"""Sentences, durations and autopsies: what people read, and that it never fails."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flask_jobrunner.model import words
from flask_jobrunner.model.records import NOBODY, Attempt, Job, Outcome
from flask_jobrunner.model.statuses import BOOT_REFUSALS, STOP_REASONS, JobStatus, Reason

AT = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
NOW = AT + timedelta(seconds=130)


def job(status: str, **values: Any) -> Job:
    fields = dict.fromkeys((field.name for field in dataclasses.fields(Job)), None)
    known: dict[str, Any] = {"status": status, "queued_at": AT, "started_at": AT}
    return Job(**{**fields, **known, **values})


def attempt(**worker: Any) -> Attempt:
    fields = dict.fromkeys((field.name for field in dataclasses.fields(Attempt)), None)
    return Attempt(**{**fields, "worker": dataclasses.replace(NOBODY, **worker)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (0.9994, "999 ms"),
        (0.9995, "1.0 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.95, "1 min 00 s"),
        (130, "2 min 10 s"),
        (3599.4, "59 min 59 s"),
        (3599.5, "1 h 00 min"),
        (3840, "1 h 04 min"),
        (86399, "23 h 59 min"),
        (86400, "1 d"),
        (273600, "3 d 4 h"),
        (float("nan"), "0 ms"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_400, "999.4 kB"),
        (999_949, "1.0 MB"),
        (3_100_000, "3.1 MB"),
        (5 * 10**9, "5.0 GB"),
        (10**16, "10000.0 TB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert words.size(count) == text


def test_time_between_is_never_negative() -> None:
    assert words.between(AT, NOW) == 130
    assert words.between(NOW, AT) == 0
    assert words.between(None, AT) is words.between(AT, None) is None


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (job("queued"), "Waiting to start for 2 min 10 s."),
        (
            job("queued", not_before=NOW + timedelta(hours=1)),
            "Not due yet; waiting for 2 min 10 s.",
        ),
        (job("queued", not_before=AT), "Waiting to start for 2 min 10 s."),
        (job("running"), "Running for 2 min 10 s."),
        (job("running", started_at=None), "Running for 0 ms."),
        (job("cancel_requested"), "Asked to stop; running for 2 min 10 s."),
        (job("succeeded", finished_at=AT + timedelta(seconds=2)), "Finished after 2.0 s."),
        (job("cancelled", started_at=None), "Cancelled before it started."),
        (job("cancelled", finished_at=NOW), "Cancelled after 2 min 10 s."),
        (
            job("cancelled", finished_at=NOW, error_reason_code="cancel_forced"),
            "Cancelled after 2 min 10 s, its process was ended.",
        ),
        (
            job("failed", finished_at=NOW, error_reason_code="handler_raised"),
            "Failed after 2 min 10 s. The handler raised an exception.",
        ),
        (job("failed", started_at=None), "Failed. No reason was recorded."),
        (
            job("interrupted", finished_at=NOW, error_reason_code="not_started"),
            (
                "Interrupted after 2 min 10 s. The process ended before the handler began: "
                "nothing was run."
            ),
        ),
    ],
)
def test_where_a_job_stands(record: Job, text: str) -> None:
    assert words.sentence(record, NOW) == text


def test_a_running_job_says_where_and_a_lost_one_what_that_means() -> None:
    told = words.sentence(job("running"), NOW, attempt(host="web-1", pid=42))
    assert told == "Running for 2 min 10 s on web-1, pid 42."
    assert words.sentence(job("running"), NOW, attempt()) == "Running for 2 min 10 s."
    lost = words.sentence(job("lost", finished_at=NOW), NOW)
    assert "may still be working" in lost
    assert "lock is kept" in lost


@pytest.mark.parametrize("status", JobStatus)
def test_every_status_has_a_sentence_and_a_word(status: JobStatus) -> None:
    assert words.STATUS_WORDS[status]
    for record in (job(status), job(status, started_at=None, finished_at=AT)):
        assert words.sentence(record, AT - timedelta(days=1)).endswith(".")


def test_every_reason_has_a_sentence() -> None:
    assert set(words.REASON_WORDS) == {*Reason, *BOOT_REFUSALS}
    assert all(text.endswith(".") for text in words.REASON_WORDS.values())
    assert set(words.STOP_WORDS) == set(STOP_REASONS)


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        ({}, "the process is gone, and nobody saw how it ended"),
        ({"report": None}, "the process is gone, and nobody saw how it ended"),
        (
            {"signal": 9, "wall": 41.0},
            "killed by signal 9 (SIGKILL), 41.0 s after the process began",
        ),
        ({"signal": 99}, "killed by signal 99"),
        ({"exit_code": 0}, "exited 0 without a result"),
        (
            {"exit_code": 3, "signal": None, "wall": 0.5},
            "exited 3 without a result, 500 ms after the process began",
        ),
        (
            {"signal": 9, "peak_rss": 2_000_000_000, "oom": True},
            "killed by signal 9 (SIGKILL), peak memory 2.0 GB, out of memory",
        ),
        ({"signal": 9, "oom": False}, "killed by signal 9 (SIGKILL)"),
        (
            {"signal": 15, "killed": "run_timeout"},
            "killed by signal 15 (SIGTERM); stopped by its parent (run timeout)",
        ),
        ({"spawn_error": "[Errno 2] x"}, "the command could not be started: [Errno 2] x"),
    ],
)
def test_autopsies(evidence: dict[str, Any], text: str) -> None:
    assert words.autopsy(evidence) == text


@pytest.mark.parametrize(
    ("outcome", "level", "text"),
    [
        (Outcome(status="succeeded"), "info", "Succeeded"),
        (Outcome(status="cancelled", error_message="x"), "info", "Cancelled"),
        (
            Outcome(status="failed", reason="handler_raised", error_message="no\nmore"),
            "error",
            "Failed (handler_raised): no",
        ),
        (Outcome(status="failed", reason="handler_raised"), "error", "Failed (handler_raised)"),
        (
            Outcome(status="interrupted", reason="shutdown", error_message="x" * 2000),
            "warning",
            f"Interrupted (shutdown): {'x' * 500}",
        ),
        (Outcome(status="lost", reason="owner_gone"), "warning", "Lost (owner_gone)"),
        (Outcome(status="failed", error_message="\n"), "error", "Failed"),
        (Outcome(status="failed", error_message=""), "error", "Failed"),
        (Outcome(status="queued", reason="not_started"), "info", "Queued (not_started)"),
    ],
)
def test_the_runner_s_last_line(outcome: Outcome, level: str, text: str) -> None:
    line = words.last_line(outcome)
    assert (line.level, line.message, line.stream) == (level, text, "")
