"""The closed lists: statuses, moves, reasons, exit codes."""

from __future__ import annotations

from typing import get_args

import pytest

from flask_jobrunner.model.statuses import (
    ACTIVE,
    BOOT_REFUSALS,
    MOVES,
    OWNED,
    REQUEUEABLE,
    STOP_REASONS,
    TERMINAL,
    ExitCode,
    JobStatus,
    Reason,
    StatusText,
    StopReason,
    exit_code_of,
    may_move,
)


def test_eight_statuses_of_which_three_are_active() -> None:
    assert set(get_args(StatusText)) == {str(status) for status in JobStatus}
    assert {"queued", "running", "cancel_requested"} == ACTIVE
    assert {"running", "cancel_requested"} == OWNED
    assert {"succeeded", "failed", "cancelled", "interrupted", "lost"} == TERMINAL
    assert set(JobStatus) == ACTIVE | TERMINAL
    assert {"failed", "cancelled", "interrupted"} == REQUEUEABLE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("queued", "cancel_requested"),  # nobody would ever end it
        ("queued", "succeeded"),
        ("queued", "interrupted"),
        ("queued", "lost"),
        ("cancel_requested", "running"),
        ("cancel_requested", "succeeded"),  # a request that is recorded wins
        ("cancel_requested", "queued"),
        ("succeeded", "queued"),
        ("succeeded", "failed"),
        ("failed", "succeeded"),
        ("cancelled", "running"),
        ("lost", "running"),
        ("lost", "interrupted"),
        ("interrupted", "running"),
    ],
)
def test_moves_that_there_must_not_be(before: str, after: str) -> None:
    assert not may_move(before, after)


def test_a_terminal_status_is_left_by_a_requeue_or_a_closing_only() -> None:
    left = {(before, after) for before, after in MOVES if before in TERMINAL}
    assert {after for _, after in left} == {"queued", "cancelled"}
    assert {before for before, after in left if after == "cancelled"} == {"lost"}
    assert not any(may_move(status, status) for status in JobStatus)


def test_reasons_and_refusals_are_the_contract_s() -> None:
    assert {str(reason) for reason in Reason} == {
        *("launch_failed", "launch_timeout", "never_launched", "queue_timeout"),
        *("revision_mismatch", "poison", "handler_not_registered", "handler_not_importable"),
        *("handler_contract_mismatch", "invalid_payload", "handler_raised", "handler_exited"),
        *("result_not_encodable", "result_too_large", "cancelled_unasked", "run_timeout"),
        *("stalled", "not_started", "shutdown", "process_died", "cancel_forced", "owner_gone"),
        "lost_closed",
    }
    assert {
        *("bad_envelope", "bad_credential", "fingerprint_mismatch", "schema_mismatch"),
        "app_not_built",
    } == BOOT_REFUSALS
    assert STOP_REASONS == ("shutdown", "stall", "run_timeout", "cancel", "force")
    assert get_args(StopReason) == STOP_REASONS


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("succeeded", 0),
        ("cancelled", 0),
        ("failed", 1),
        ("interrupted", 6),
        ("lost", 6),
        ("queued", 4),
        ("running", 4),
        ("cancel_requested", 4),
    ],
)
def test_exit_codes_of_statuses(status: str, code: int) -> None:
    assert exit_code_of(status) == code


def test_exit_codes() -> None:
    codes = {name: value for name, value in vars(ExitCode).items() if name.isupper()}
    assert codes == {
        "OK": 0,
        "FAILED": 1,
        "USAGE": 2,
        "NOT_FOUND": 3,
        "WAIT_TIMED_OUT": 4,
        "REFUSED": 5,
        "INTERRUPTED": 6,
        "DATABASE": 69,
        "CONFIGURATION": 78,
    }
