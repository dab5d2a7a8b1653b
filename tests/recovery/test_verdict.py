"""The verdict on a dead owner: the table, row by row; the first match wins."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from flask_jobrunner.model.records import NOBODY, Job, OwnedJob
from flask_jobrunner.recovery.verdict import lost, verdict

AT = datetime(2026, 1, 1, tzinfo=UTC)
SIGNAL = {"signal": 9, "exit_code": None, "wall": 41.0}
EXITED = {"signal": None, "exit_code": 0, "wall": 1.0}
UNSEEN: dict[str, Any] = {"report": None}


def seen(**values: Any) -> OwnedJob:
    """A running push job with its start marker, changed by `values` of either record."""
    job_fields = {field.name for field in dataclasses.fields(Job)}
    job: dict[str, Any] = dict.fromkeys(job_fields)
    job |= {"id": 1, "uuid": "u", "job_type": "t", "status": "running", "attempt": 1}
    job |= {"handler_started_at": AT}
    owned: dict[str, Any] = {field.name: None for field in dataclasses.fields(OwnedJob)}
    owned |= {"claim_mode": "token", "worker": NOBODY, "parent": NOBODY, "now": 100}
    owned |= {"unstarted_deaths": 0}
    for name, value in values.items():
        (job if name in job_fields else owned)[name] = value
    return OwnedJob(**owned | {"job": Job(**job)})


@pytest.mark.parametrize(
    ("values", "evidence", "status", "reason"),
    [
        ({"status": "cancel_requested"}, SIGNAL, "cancelled", None),
        (
            {"status": "cancel_requested"},
            SIGNAL | {"killed": "cancel"},
            "cancelled",
            "cancel_forced",
        ),
        ({"stop_reason": "force"}, SIGNAL | {"killed": "force"}, "cancelled", "cancel_forced"),
        ({"status": "cancel_requested", "stop_reason": "run_timeout"}, SIGNAL, "cancelled", None),
        ({"stop_reason": "run_timeout"}, SIGNAL, "failed", "run_timeout"),
        ({}, SIGNAL | {"killed": "run_timeout"}, "failed", "run_timeout"),
        ({"run_deadline": 50, "heartbeat": 51}, UNSEEN, "failed", "run_timeout"),
        ({"run_deadline": 50, "heartbeat": 50}, UNSEEN, "interrupted", "owner_gone"),
        ({"handler_started_at": None}, SIGNAL, "interrupted", "not_started"),
        ({"handler_started_at": None, "claim_mode": "trusted"}, SIGNAL, "queued", "not_started"),
        (
            {"handler_started_at": None, "claim_mode": "trusted", "unstarted_deaths": 2},
            SIGNAL,
            "failed",
            "poison",
        ),
        (
            {"handler_started_at": None, "claim_mode": "trusted", "unstarted_deaths": 2},
            SIGNAL | {"killed": "shutdown"},
            "queued",
            "not_started",
        ),
        ({}, SIGNAL | {"killed": "shutdown"}, "interrupted", "shutdown"),
        (
            {"handler_started_at": None, "claim_mode": "trusted", "status": "cancel_requested"},
            SIGNAL,
            "cancelled",
            None,
        ),
        (
            {"handler_started_at": None, "stop_reason": "shutdown"},
            SIGNAL,
            "interrupted",
            "not_started",
        ),
        ({"stop_reason": "shutdown"}, SIGNAL, "interrupted", "shutdown"),
        ({}, SIGNAL, "interrupted", "process_died"),
        ({}, EXITED, "interrupted", "process_died"),
        ({"claim_mode": "trusted"}, SIGNAL, "interrupted", "process_died"),
        ({}, UNSEEN, "interrupted", "owner_gone"),
    ],
)
def test_the_first_match_wins(
    values: dict[str, Any], evidence: dict[str, Any], status: str, reason: str | None
) -> None:
    """A cancel, then the run budget, then the missing start marker, then the evidence."""
    judged = verdict(seen(**values), evidence)

    assert (judged.status, judged.reason) == (status, reason)
    assert judged.evidence == evidence


def test_the_message_says_what_was_seen() -> None:
    """In the words that page and command use."""
    assert (
        "Killed by signal 9 (SIGKILL), 41.0 s after the process began"
        in verdict(seen(), SIGNAL).message
    )
    assert "Exited 0 without a result" in verdict(seen(), EXITED).message
    assert "nobody saw how it ended" in verdict(seen(), UNSEEN).message


def test_success_is_never_inferred() -> None:
    """Not even from an exit code of 0."""
    assert verdict(seen(), EXITED).status == "interrupted"


def test_lost_says_for_how_long_nobody_was_seen() -> None:
    """And on which host."""
    worker = dataclasses.replace(NOBODY, host="far.test")
    judged = lost(seen(worker=worker, lease_until=7), 18.2)

    assert (judged.status, judged.reason) == ("lost", "owner_gone")
    assert "far.test" in judged.message
    assert judged.evidence == {"watched": 18.2, "lease_until": 7}
