"""Recording a report in every state of its row, and settling what somebody looks at."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.records import Claim, Identity, NewLine, Outcome, OwnedJob
from flask_jobrunner.protocol.envelope import hash_credential
from flask_jobrunner.protocol.identity import this_process
from flask_jobrunner.protocol.output import dump_record, new_nonce
from flask_jobrunner.protocol.report import EndReport
from flask_jobrunner.recovery.settle import AFTER_THE_END, settle_report, settle_row
from flask_jobrunner.runtime import Runtime
from tests.helpers.reports import heard, printed, report
from tests.helpers.stores import (
    CREDENTIAL,
    DEAD,
    assert_sound,
    claim,
    end_as,
    everything,
    history,
    lines,
    messages,
    owned,
    queue,
    row,
    start,
    status_of,
)

SECOND = 1_000_000


def settled_twice(runtime: Runtime, told: EndReport) -> None:
    """Record a report; again it changes nothing, and says the same."""
    assert settle_report(runtime, told)
    dump = everything(runtime)
    assert settle_report(runtime, told)
    assert everything(runtime) == dump
    assert_sound(runtime)


def test_a_report_that_came_second_says_how_the_process_ended(runtime: Runtime) -> None:
    """Somebody looked at the job before its parent could record what it saw."""
    won = start(runtime, worker=DEAD)
    settle_row(runtime, won.fence.job_id)
    assert status_of(runtime, won.fence.job_id) == ("interrupted", "owner_gone")

    settled_twice(runtime, report(won, signal=11))

    job = owned(runtime, won.fence.job_id).job
    assert (job.status, job.error_reason_code) == ("interrupted", "process_died")
    assert "signal 11" in (job.error_message or "")
    (attempt,) = runtime.attempts.of(job.id)
    assert (attempt.end_reason, attempt.signal) == ("process_died", 11)
    assert len(history(runtime, job.id)) == 3  # nothing has moved


@pytest.mark.parametrize(
    ("values", "of"),
    [({"killed": "run_timeout"}, {}), ({"signal": None}, {}), ({}, {"attempt": 2})],
    ids=["another verdict", "no better one", "another attempt"],
)
def test_what_a_late_report_cannot_explain_stays(
    runtime: Runtime, values: dict[str, Any], of: dict[str, Any]
) -> None:
    won = start(runtime, worker=DEAD)
    settle_row(runtime, won.fence.job_id)

    assert settle_report(runtime, report(won, **values, **of))

    assert status_of(runtime, won.fence.job_id) == ("interrupted", "owner_gone")
    assert_sound(runtime)


# -- a report, by the state of its row --------------------------------------------------------


def test_of_a_job_that_is_gone_nothing_is_left_to_say(runtime: Runtime) -> None:
    dump = everything(runtime)
    settled_twice(runtime, report())
    assert everything(runtime) == dump


@pytest.mark.parametrize(
    ("values", "reason", "words"),
    [
        ({"killed": "claim_window"}, "launch_timeout", "did not take the job within"),
        ({"exit_code": 1, "signal": None}, "launch_failed", "exited 1 without a result"),
        ({}, "launch_failed", "killed by signal 9 (SIGKILL)"),
        ({"refused": "app_not_built"}, "launch_failed", "application could not be built"),
        ({"refused": "fingerprint_mismatch"}, "launch_failed", "another database"),
        ({"refused": "something new"}, "launch_failed", "could not be started"),
        ({"spawn_error": "[Errno 2] no such file"}, "launch_failed", "[Errno 2]"),
    ],
)
def test_a_launch_that_ended_unclaimed(
    runtime: Runtime, values: dict[str, Any], reason: str, words: str
) -> None:
    job = queue(runtime, lock_key="k")
    told = report(job, stderr=printed("Traceback...\npassword=hunter2\nboom\n"), **values)
    with heard(runtime.app) as signals:
        settled_twice(runtime, told)
    assert status_of(runtime, job.id) == ("failed", reason)
    message = owned(runtime, job).job.error_message or ""
    assert words in message
    assert "boom" in message
    assert "hunter2" not in json.dumps(everything(runtime))
    assert signals == [("finished", job.uuid, "failed")]
    assert runtime.jobs.holder("k") is None
    assert history(runtime, job.id)[-1] == ("fail", "queued", "failed")
    evidence = runtime.events.of(job.id)[-1].evidence
    assert evidence is not None
    assert evidence["signal"] == told.signal


@pytest.mark.parametrize(
    ("asked", "values", "status"),
    [
        (None, {}, ("interrupted", "process_died")),
        (None, {"exit_code": 0, "signal": None}, ("interrupted", "process_died")),
        (None, {"killed": "run_timeout"}, ("failed", "run_timeout")),
        ("cancel", {}, ("cancelled", None)),
        ("cancel", {"killed": "cancel"}, ("cancelled", "cancel_forced")),
        ("shutdown", {}, ("interrupted", "shutdown")),
        ("run_timeout", {}, ("failed", "run_timeout")),
    ],
)
def test_an_owner_that_died(
    runtime: Runtime, asked: Any, values: dict[str, Any], status: tuple[str, str | None]
) -> None:
    won = start(runtime, queue(runtime, lock_key="k"))
    job_id = won.fence.job_id
    if asked == "cancel":
        runtime.jobs.request_cancel(job_id, 1, None)
    elif asked:
        runtime.ownership.set_stop_reason(won.fence, asked)
    runtime.ownership.beat(won.fence, lines=lines("a"), last_seq=0)
    with heard(runtime.app) as signals:
        settled_twice(runtime, report(won, stdout=printed("last words\n"), **values))
    assert status_of(runtime, job_id) == status
    assert [text for _, text in messages(runtime, job_id)][:2] == ["a", "last words"]
    assert signals == [("finished", won.owned.job.uuid, status[0])]
    assert runtime.jobs.holder("k") is None
    (attempt,) = runtime.attempts.of(job_id)
    assert (attempt.end_status, attempt.peak_rss, attempt.cpu_us) == (
        status[0],
        12_000_000,
        500_000,
    )
    assert runtime.attempts.is_reported(job_id, 1)


def test_an_owner_that_died_before_its_handler(runtime: Runtime) -> None:
    won = claim(runtime)
    settled_twice(runtime, report(won, started=False))
    assert status_of(runtime, won.fence.job_id) == ("interrupted", "not_started")


@pytest.mark.parametrize("status", ["succeeded", "failed", "interrupted", "cancelled", "lost"])
def test_an_attempt_that_has_ended_gets_its_evidence_once(runtime: Runtime, status: str) -> None:
    won = start(runtime)
    job_id = won.fence.job_id
    end_as(runtime, won, status)
    before = row(runtime, job_id)
    with heard(runtime.app) as signals:
        settled_twice(
            runtime, report(won, stdout=printed("after the end\n"), exit_code=0, signal=None)
        )
    after = row(runtime, job_id)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"row_version", "log_seq", "log_bytes"}
    added = [message for _, message in messages(runtime, job_id)[-2:]]
    assert added == [AFTER_THE_END, "after the end"]
    (attempt,) = runtime.attempts.of(job_id)
    assert attempt.exit_code == 0
    assert attempt.evidence is not None
    assert signals == []


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_launch_that_was_over_before_it_ended(runtime: Runtime, how: str) -> None:
    job = queue(runtime)
    if how == "cancelled":
        runtime.jobs.cancel_queued(job.id, 1, None)
    else:
        runtime.jobs.fail_queued(job.id, 1, "launch_timeout", message="Too late.")
    dump = everything(runtime)
    settled_twice(runtime, report(job))
    assert everything(runtime) == dump


def next_attempt(runtime: Runtime, job_id: int) -> None:
    assert runtime.jobs.requeue(
        owned(runtime, job_id).job,
        credential_hash=hash_credential(CREDENTIAL),
        claim_window=30.0,
        queue_budget=None,
        revision=None,
        config_digest="",
        actor=None,
    )


def test_an_unclaimed_launch_never_ends_the_next_attempt(runtime: Runtime) -> None:
    job = queue(runtime)
    runtime.jobs.fail_queued(job.id, 1, "launch_timeout", message="")
    next_attempt(runtime, job.id)
    dump = everything(runtime)
    settled_twice(runtime, report(job))
    assert everything(runtime) == dump


@pytest.mark.parametrize("now", ["queued", "running", "cancel_requested", "succeeded"])
def test_a_late_report_of_an_earlier_attempt(runtime: Runtime, now: str) -> None:
    first = start(runtime)
    job_id = first.fence.job_id
    end_as(runtime, first, "failed")
    next_attempt(runtime, job_id)
    second = None
    if now != "queued":
        second = start(runtime, owned(runtime, job_id).job)
        if now == "cancel_requested":
            runtime.jobs.request_cancel(job_id, 2, None)
        elif now == "succeeded":
            end_as_second(runtime, second)
    before = row(runtime, job_id)

    settled_twice(runtime, report(first, stdout=printed("of the first\n")))

    after = row(runtime, job_id)
    assert (after["status"], after["attempt"]) == (before["status"], 2)
    evidence = runtime.attempts.of(job_id)[0].evidence
    assert evidence is not None
    if now in {"running", "cancel_requested"}:
        # Its owner counts the lines: the last words are kept beside the attempt instead.
        assert after == before
        assert evidence["last_words"] == "of the first"
        assert second is not None
        seq = before["log_seq"]
        assert runtime.ownership.beat(second.fence, lines=lines("b"), last_seq=seq)
    else:
        last = runtime.logs.newest(job_id, 1)[0]
        assert (last.message, last.attempt) == ("of the first", 1)


def end_as_second(runtime: Runtime, won: Claim) -> None:
    seq = row(runtime, won.fence.job_id)["log_seq"]
    assert runtime.endings.finish(won.fence, Outcome(status="succeeded"), last_seq=seq)


def test_a_report_with_another_s_token_changes_nothing(runtime: Runtime) -> None:
    won = start(runtime)
    dump = everything(runtime)
    settled_twice(runtime, report(won, token="another"))
    assert everything(runtime) == dump


@pytest.mark.parametrize(("worker", "ends"), [(DEAD, True), (this_process(), False)])
def test_where_the_word_of_the_claim_was_lost_the_kernel_is_asked(
    runtime: Runtime, worker: Identity, ends: bool
) -> None:
    won = start(runtime, worker=worker)
    dump = everything(runtime)
    settled_twice(runtime, report(won.owned.job, booted=True))
    assert (status_of(runtime, won.fence.job_id)[0] == "interrupted") == ends
    assert (everything(runtime) != dump) == ends


def test_reports_at_once_are_recorded_once(runtime: Runtime) -> None:
    won = start(runtime)
    told = report(won, stdout=printed("last words\n"))

    def record(_number: int) -> bool:
        with runtime.app.app_context():
            return settle_report(runtime, told)

    with heard(runtime.app) as signals, ThreadPoolExecutor(6) as threads:
        assert all(threads.map(record, range(6)))
    assert [text for _, text in messages(runtime, won.fence.job_id)].count("last words") == 1
    assert [action for action, *_ in history(runtime, won.fence.job_id)].count("end") == 1
    assert len(signals) == 1
    assert_sound(runtime)


def test_a_row_that_moves_while_it_is_judged_is_looked_at_again(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    won = start(runtime)
    read, late = runtime.jobs.owned, [True]

    def owned_then_moved(ref: int | str) -> OwnedJob | None:
        found = read(ref)
        if late and late.pop():
            runtime.jobs.request_cancel(won.fence.job_id, 1, "ann")
        return found

    monkeypatch.setattr(runtime.jobs, "owned", owned_then_moved)
    assert settle_report(runtime, report(won))
    assert status_of(runtime, won.fence.job_id) == ("cancelled", None)


def test_a_row_that_never_stands_still_is_left_to_the_next_who_tries(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No receipt then, and no endless loop."""
    won, tries = start(runtime), list[bool]()

    def overtaken(*_: Any, **__: Any) -> bool:
        tries.append(True)
        return False

    monkeypatch.setattr(runtime.endings, "end_dead", overtaken)
    assert not settle_report(runtime, report(won))
    assert 1 < len(tries) < 10
    monkeypatch.undo()
    assert settle_report(runtime, report(won))


def test_a_report_waits_while_the_database_is_away(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No receipt then: the shim has others record it."""
    won = start(runtime)

    def away(*_: Any, **__: Any) -> Any:
        raise DatabaseAway("gone")

    monkeypatch.setattr(runtime.endings, "end_dead", away)
    with pytest.raises(DatabaseAway):
        settle_report(runtime, report(won))
    monkeypatch.undo()
    assert settle_report(runtime, report(won))


def test_what_was_left_in_the_pipes_becomes_lines(runtime: Runtime) -> None:
    """Records keep their level and time; what was dropped and what crashed is said; masked."""
    won, nonce = start(runtime), new_nonce()
    record = b"".join(dump_record(nonce, NewLine("a record", "warning", "", "step", '{"a":1}', 77)))
    told = report(
        won,
        nonce=nonce,
        stdout=printed(b"half of a line\n" + record + b"shop_code=hunter2\nno end"),
        stderr=printed(b"caf\xe9\0\n"),
        stdout_dropped=12345,
        fault="Fatal Python error: Segmentation fault\n\n  File x\n",
    )
    object.__setattr__(runtime.config, "redact_keys", ("shop_code",))
    settled_twice(runtime, told)
    stored = runtime.logs.after(won.fence.job_id, 0, 100)
    assert [(line.level, line.stream, line.message) for line in stored][:-1] == [
        ("warning", "", "12,345 bytes of stdout are missing here."),
        ("info", "stdout", "half of a line"),
        ("warning", "", "a record"),
        ("info", "stdout", "shop_code=********"),
        ("info", "stderr", "caf\ufffd\\u0000"),
        ("info", "stdout", "no end"),
        ("error", "stderr", "Fatal Python error: Segmentation fault"),
        ("error", "stderr", "  File x"),
    ]
    assert (stored[2].step_key, stored[2].context) == ("step", {"a": 1})
    assert row(runtime, won.fence.job_id)["warning_count"] == 3  # and the runner's own last one
    assert row(runtime, won.fence.job_id)["error_count"] == 2
