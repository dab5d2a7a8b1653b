"""The closed lists: statuses, moves, reasons, exit codes."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

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


# From each status, and from nothing, to these and to no others.
TABLE = {
    None: "queued",
    "queued": "running cancelled failed",
    "running": "cancel_requested succeeded failed interrupted cancelled queued lost",
    "cancel_requested": "cancelled failed lost",
    "succeeded": "",
    "failed": "queued",
    "cancelled": "queued",
    "interrupted": "queued",
    "lost": "queued cancelled",
}


def test_a_move_that_is_not_in_the_table_is_none() -> None:
    """All seventy-two there could be."""
    asked = set(itertools.product(TABLE, get_args(StatusText)))
    assert len(asked) == 72
    assert {pair for pair in asked if pair in MOVES} == {
        (before, after) for before, afters in TABLE.items() for after in afters.split()
    }
    assert asked >= MOVES
    for before, after in asked:
        assert before is None or may_move(before, after) == (after in TABLE[before].split())


@settings(deadline=None, derandomize=True, database=None)
@given(*[st.one_of(st.text(), st.sampled_from([*map(str, JobStatus)]))] * 2)
def test_what_is_no_status_moves_nowhere(before: str, after: str) -> None:
    assume({before, after} - set(JobStatus))
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
