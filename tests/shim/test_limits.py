"""Who overstays is ended from outside: the claim window, the run budget, a slow stop."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from flask_jobrunner.shim import watch
from tests.helpers.shims import (
    Launch,
    fake_child,
    noted,
)


def test_a_child_that_never_claims_is_ended_with_its_window(launch: Launch, tmp_path: Path) -> None:
    report = launch(fake_child(tmp_path, "forever()"), claim_window=0.3).report()

    assert report.killed == "claim_window"
    assert report.signal == signal.SIGTERM
    assert 0.3 <= report.wall < 2


def test_a_child_that_claimed_outlives_the_window(launch: Launch, tmp_path: Path) -> None:
    shim = launch(fake_child(tmp_path, "claim(); time.sleep(1); sys.exit(7)"), claim_window=0.5)

    assert shim.report().exit_code == 7


def test_a_child_that_cannot_say_that_it_claimed_is_not_killed_for_it(
    launch: Launch, tmp_path: Path
) -> None:
    body = "envelope(); os.close(ack); time.sleep(1); sys.exit(7)"
    report = launch(fake_child(tmp_path, body), claim_window=0.5).report()

    assert (report.exit_code, report.killed) == (7, None)


def test_a_child_that_ignores_term_is_killed_after_the_grace(
    launch_here: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "TERM_GRACE", 0.3)
    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay('booted')\nforever()"
    report = launch_here(fake_child(tmp_path, body), claim_window=0.5).report()

    assert report.signal == signal.SIGKILL
    assert report.killed == "claim_window"
    assert report.oom in (False, None)


def test_the_run_budget_is_enforced_from_outside(launch: Launch, tmp_path: Path) -> None:
    body = "claim(); say('started', budget=0.3, grace=0.2); forever()"
    report = launch(fake_child(tmp_path, body)).report()

    assert report.killed == "run_timeout"
    assert report.signal == signal.SIGTERM
    assert 0.5 <= report.wall < 2.5


@pytest.mark.parametrize("reason", watch.OF_THE_HANDLER)
def test_a_handler_that_returned_in_time_leaves_its_process_the_time_to_say_so(
    launch: Launch, tmp_path: Path, reason: str
) -> None:
    """As long as the database is away, the end cannot be written."""
    body = f"""
claim()
say("started", budget=0.5, grace=0)
say("stopping", reason={reason!r}, grace=0.5)
say("returned", seconds=30)
time.sleep(2)
sys.exit(7)
"""
    report = launch(fake_child(tmp_path, body)).report()

    assert (report.killed, report.exit_code) == (None, 7)


def test_a_handler_that_returned_does_not_keep_its_process_for_ever(
    launch: Launch, tmp_path: Path
) -> None:
    body = "claim(); say('started', budget=0.2, grace=0); say('returned', seconds=0.6); forever()"
    report = launch(fake_child(tmp_path, body)).report()

    assert report.killed == "run_timeout"
    assert report.wall >= 0.6


def test_what_is_no_end_of_the_handler_is_due_after_it_returned_too(
    launch: Launch, tmp_path: Path
) -> None:
    body = "claim(); say('stopping', reason='force', grace=0.3); say('returned', seconds=60)"
    report = launch(fake_child(tmp_path, f"{body}; forever()")).report()

    assert report.killed == "force"


def test_a_stopped_process_is_continued_so_that_it_can_end(launch: Launch, tmp_path: Path) -> None:
    body = "claim(); say('started', budget=0.5, grace=0); os.kill(os.getpid(), signal.SIGSTOP)"
    report = launch(fake_child(tmp_path, body)).report()

    assert report.killed == "run_timeout"
    assert report.signal == signal.SIGTERM


def test_the_stopping_ladder_ends_with_kill(launch: Launch, tmp_path: Path) -> None:
    body = """
signal.signal(signal.SIGTERM, lambda *_: note("terms", time.monotonic()))
claim()
note("stops", time.monotonic())
say("stopping", reason="cancel", grace=0.3)
while True:
    time.sleep(1)
"""
    report = launch(fake_child(tmp_path, body)).report()
    (warned,) = noted(tmp_path, "stops")
    (termed,) = noted(tmp_path, "terms")

    assert report.killed == "cancel"
    assert report.signal == signal.SIGKILL
    assert termed - warned >= 0.3
    assert report.wall >= 0.3 + watch.WARNED_GRACE


def test_a_child_that_stops_in_time_was_not_killed(launch: Launch, tmp_path: Path) -> None:
    body = "claim(); say('stopping', reason='shutdown', grace=20); sys.exit(6)"
    report = launch(fake_child(tmp_path, body)).report()

    assert (report.killed, report.exit_code) == (None, 6)


def test_the_earliest_limit_counts(launch: Launch, tmp_path: Path) -> None:
    body = """
claim()
say("started", budget=60, grace=0)
say("stopping", reason="shutdown", grace=30)
say("stopping", reason="force", grace=0)
forever()
"""
    assert launch(fake_child(tmp_path, body)).report(timeout=5).killed == "force"
