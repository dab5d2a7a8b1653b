"""What the caller of a launch learns, and how fast."""

from __future__ import annotations

import os
import signal
import time

import pytest

from flask_jobrunner.caller import launch as launch_module
from flask_jobrunner.protocol.report import parse_report
from tests.helpers.launches import Launching
from tests.helpers.shims import (
    UUID,
    child_pid,
    noted,
)
from tests.helpers.waiting import eventually


def test_a_claim_is_heard_and_the_end_recorded(launching: Launching) -> None:
    handle = launching.child("claim(); print('hello', flush=True); sys.exit(3)")

    assert handle.wait(10) == "claimed"
    eventually(lambda: launching.recorded.lines)
    report = parse_report(launching.recorded.lines[0])
    assert (report.uuid, report.exit_code, report.claimed) == (UUID, 3, True)
    assert handle.report == launching.recorded.lines[0]
    assert handle.last_words == "hello"
    eventually(launching.idle)
    assert len(launching.recorded.lines) == 1
    assert handle.wait(0) == "claimed"
    assert noted(launching.folder, "settles") == [], "the receipt was given"


def test_a_launch_does_not_wait_for_the_child(launching: Launching) -> None:
    handle = launching.child("time.sleep(2)")

    assert handle.wait(0) == "waiting"


def test_the_longest_wait_is_one_that_a_clock_can_hold(launching: Launching) -> None:
    """It raised after the job was committed and launched."""
    assert launching.child("claim()").wait(1e300) == "claimed"


def test_a_claim_not_heard_of_in_time_is_unknown(launching: Launching) -> None:
    handle = launching.child("forever()")
    started = time.monotonic()

    assert handle.wait(0.3) == "waiting"
    assert time.monotonic() - started >= 0.3
    assert handle.report is None
    assert handle.last_words == ""


def test_a_refusal_comes_with_its_code_and_the_report(launching: Launching) -> None:
    body = "envelope(); say('refused', code='bad_credential'); time.sleep(0.2); sys.exit(5)"
    handle = launching.child(body)

    assert handle.wait(10) == "refused"
    assert handle.refusal == "bad_credential"
    assert handle.report is not None
    assert parse_report(handle.report).exit_code == 5


def test_a_refusal_is_told_when_the_time_is_over(launching: Launching) -> None:
    handle = launching.child("envelope(); say('refused', code='x'); forever()")
    eventually(lambda: handle.refusal)

    assert handle.wait(0) == "refused"
    assert handle.report is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        ("raise RuntimeError('the factory')", "RuntimeError: the factory"),
        ("sys.exit('not today')", "not today"),
        ("print('postgresql://shop:s3cret@db/shop'); os._exit(1)", ""),
        ("exec('def')", "SyntaxError"),
    ],
)
def test_a_child_that_ends_before_its_claim_is_heard_at_once_with_its_last_words(
    launching: Launching, body: str, words: str
) -> None:
    handle = launching.child(body)

    assert handle.wait(60) == "ended"
    assert words in handle.last_words
    assert "s3cret" not in handle.last_words
    assert handle.report is not None
    assert parse_report(handle.report).exit_code == 1


def test_last_words_are_masked_bounded_and_say_what_is_missing(launching: Launching) -> None:
    body = "sys.stderr.write('x' * 79 + '\\n'); " * 2 + (
        "[sys.stderr.write('line %d\\n' % n) for n in range(40_000)]; "
        "sys.stderr.write('DB_PASSWORD=hunter2\\n'); print('out'); sys.exit(1)"
    )
    handle = launching.child(body)
    handle.wait(10)

    assert "DB_PASSWORD=********" in handle.last_words
    assert "hunter2" not in handle.last_words
    assert len(handle.last_words) <= 8000
    short = launch_module._last_words(handle.report or b"")
    assert short == handle.last_words


def test_dropped_bytes_are_counted_in_the_last_words(launching: Launching) -> None:
    handle = launching.child("os.write(2, (b'y' * 4000 + b'\\n') * 20); sys.exit(1)")
    handle.wait(10)
    report = parse_report(handle.report or b"")

    assert report.stderr_dropped > 0
    assert "[" not in handle.last_words  # it is longer than what is shown
    assert handle.last_words.endswith("y")


def test_a_missing_job_command_is_said(launching: Launching) -> None:
    handle = launching.command(["/nowhere/flask"])

    assert handle.wait(10) == "ended"
    assert "/nowhere/flask" in handle.last_words
    assert "No such file" in handle.last_words


def test_faulthandlers_words_are_among_the_last(launching: Launching) -> None:
    handle = launching.child(
        "import faulthandler; faulthandler.enable(file=fault); faulthandler._sigsegv()"
    )

    assert handle.wait(10) == "ended"
    assert "Segmentation fault" in handle.last_words


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_child_killed_around_its_claim(launching: Launching, moment: str) -> None:
    body = {"before": "envelope(); note('up', 1); forever()", "after": "claim(); forever()"}[moment]
    handle = launching.child(body)
    if moment == "before":
        eventually(lambda: noted(launching.folder, "up"))
    else:
        assert handle.wait(10) == "claimed"
    os.kill(child_pid(launching.folder), signal.SIGKILL)

    assert handle.wait(5) == {"before": "ended", "after": "claimed"}[moment]
    report = parse_report(eventually(lambda: handle.report or b"", timeout=60))
    assert (report.signal, report.claimed) == (9, moment == "after")
