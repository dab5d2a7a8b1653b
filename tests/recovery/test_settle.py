"""Recording a report in every state of its row, and settling what somebody looks at."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.records import Claim, Identity, NewLine, Outcome, OwnedJob
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.envelope import hash_credential
from flask_jobrunner.protocol.identity import of_pid, this_process
from flask_jobrunner.protocol.output import dump_record, new_nonce
from flask_jobrunner.protocol.report import EndReport, dump_report
from flask_jobrunner.recovery.settle import holder_settled, settle_report, settle_row
from flask_jobrunner.recovery.verdict import lost
from flask_jobrunner.runtime import Runtime
from tests.helpers.reports import heard, printed, report
from tests.helpers.stores import (
    CREDENTIAL,
    ELSEWHERE,
    assert_sound,
    change,
    claim,
    everything,
    history,
    lines,
    messages,
    owned,
    queue,
    row,
    start,
    stopped_clock,
)

SECOND = 1_000_000
DEAD = replace(this_process(), pid=2**22 - 1, ticks=1)
"""A process of this host that is gone."""


def status_of(runtime: Runtime, job_id: int) -> tuple[str, str | None]:
    job = owned(runtime, job_id).job
    return job.status, job.error_reason_code


def settled_twice(runtime: Runtime, told: EndReport) -> None:
    """Record a report; again it changes nothing, and says the same."""
    assert settle_report(runtime, told)
    dump = everything(runtime)
    assert settle_report(runtime, told)
    assert everything(runtime) == dump
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
    assert messages(runtime, job_id)[-1][1] == "after the end"
    (attempt,) = runtime.attempts.of(job_id)
    assert attempt.exit_code == 0
    assert attempt.evidence is not None
    assert signals == []


def end_as(runtime: Runtime, won: Claim, status: str) -> None:
    if status == "lost":
        seen = owned(runtime, won.fence.job_id)
        assert runtime.endings.end_dead(seen, lost(seen, 18.0))
        return
    if status == "cancelled":
        runtime.jobs.request_cancel(won.fence.job_id, 1, None)
    end = Outcome(status=status)  # type: ignore[arg-type]
    assert runtime.endings.finish(won.fence, end)


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


# -- looking at a row -------------------------------------------------------------------------


@pytest.fixture
def sleeper() -> Iterator[Identity]:
    """A process of this host that lives for as long as the test."""
    command = [sys.executable, "-I", "-S", "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        yield of_pid(process.pid)
        assert process.poll() is None, "a bystander was killed"
        process.kill()


def test_a_living_owner_is_never_judged(runtime: Runtime, sleeper: Identity) -> None:
    """However late its lease is and whatever the clock says."""
    won = start(runtime, worker=sleeper)
    change(runtime, won.fence.job_id, lease_until=1, heartbeat_at=1)
    dump = everything(runtime)
    for jump in (-3600, 0, 3600 * 24 * 365):
        with stopped_clock(runtime, row(runtime, won.fence.job_id)["started_at"] + jump * SECOND):
            settled = settle_row(runtime, won.fence.job_id)
            assert settled is not None
            assert settled.job.status == "running"
    assert everything(runtime) == dump


def test_a_dead_owner_is_judged_at_once_whatever_its_lease(runtime: Runtime) -> None:
    won = start(runtime, worker=DEAD)
    with heard(runtime.app) as signals:
        settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == ("interrupted", "owner_gone")
    assert signals == [("finished", settled.job.uuid, "interrupted")]
    assert_sound(runtime)


@pytest.mark.parametrize("change_of", [{"boot": "another-boot"}, {"ticks": 1}], ids=str)
def test_a_pid_of_somebody_else_by_now(
    runtime: Runtime, sleeper: Identity, change_of: dict[str, Any]
) -> None:
    won = start(runtime, worker=replace(sleeper, **change_of))
    settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert settled.job.status == "interrupted"


@pytest.mark.parametrize(("age", "ends"), [(0.0, False), (9.9, False), (10.0, True)])
def test_a_living_parent_has_time_for_its_report(
    runtime: Runtime, sleeper: Identity, age: float, ends: bool
) -> None:
    """A heartbeat and five seconds after the last renewal."""
    won = start(runtime, worker=DEAD, parent=sleeper)
    beat = row(runtime, won.fence.job_id)["heartbeat_at"]
    with stopped_clock(runtime, beat + round(age * SECOND)):
        settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status == "interrupted") == ends


@pytest.mark.parametrize(
    ("started", "late", "ends"),
    [(False, 0, False), (False, 1, True), (True, 1, False), (True, 3600 * SECOND, False)],
)
def test_an_owner_that_nobody_here_can_see(
    runtime: Runtime, started: bool, late: int, ends: bool
) -> None:
    """Nothing ran without a start marker; with one, only a sweeper that watched may say lost."""
    won = (start if started else claim)(runtime, worker=ELSEWHERE)
    lease = row(runtime, won.fence.job_id)["lease_until"]
    with stopped_clock(runtime, lease + late):
        settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == (
        ("interrupted", "not_started") if ends else ("running", None)
    )


@pytest.mark.parametrize("late", ["renewal", "start marker"])
def test_a_late_sign_of_life_between_read_and_write_saves_the_job(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    won = claim(runtime, worker=ELSEWHERE)
    change(runtime, won.fence.job_id, lease_until=1)
    look = identity.look

    def looks_and_is_overtaken(seen: Identity, instance: str | None = None) -> Any:
        if late == "renewal":
            runtime.ownership.beat(won.fence)
        else:
            runtime.ownership.mark_started(won.fence, None)
        return look(seen, instance)

    monkeypatch.setattr(identity, "look", looks_and_is_overtaken)
    settle_row(runtime, won.fence.job_id)
    assert status_of(runtime, won.fence.job_id)[0] == "running"
    assert len(history(runtime, won.fence.job_id)) == 2


def test_a_spooled_report_is_found_by_whoever_looks(runtime: Runtime) -> None:
    won = start(runtime, worker=DEAD)
    folder = runtime.make_spool_dir()
    told = report(won, stdout=printed("last words\n"))
    (folder / f"{told.uuid}.1.json").write_bytes(dump_report(told))
    with heard(runtime.app) as signals:
        settled = settle_row(runtime, won.fence.job_id)
    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == ("interrupted", "process_died")
    assert messages(runtime, won.fence.job_id)[0][1] == "last words"
    assert signals == [("finished", settled.job.uuid, "interrupted")]


def test_deadlines_of_a_waiting_job(runtime: Runtime) -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
        ({}, {"claim_deadline": 1}, "launch_timeout"),
        ({"credential_hash": None}, {"claim_deadline": 1}, "never_launched"),
        ({"queue_budget": 60.0}, {"queue_deadline": 1}, "queue_timeout"),
        ({"queue_budget": 60.0}, {"claim_deadline": 1, "queue_deadline": 1}, "launch_timeout"),
        ({"queue_budget": 60.0}, {}, None),
    ]
    for values, changes, reason in cases:
        job = queue(runtime, **values)
        change(runtime, job.id, **changes)
        with heard(runtime.app) as signals:
            settled = settle_row(runtime, job.id)
        assert settled is not None
        assert settled.job.error_reason_code == reason
        assert settled.job.status == ("failed" if reason else "queued")
        assert len(signals) == (reason is not None)


def test_an_ended_job_is_left_alone(runtime: Runtime) -> None:
    won = start(runtime, worker=DEAD)
    runtime.endings.finish(won.fence, Outcome(status="succeeded"))
    dump = everything(runtime)
    assert settle_row(runtime, won.fence.job_id) is not None
    assert settle_row(runtime, 10**9) is None
    assert settle_row(runtime, "no such job") is None
    assert everything(runtime) == dump


def test_many_look_at_once_and_one_ends_it(runtime: Runtime) -> None:
    won = start(runtime, worker=DEAD)

    def look(_number: int) -> str:
        with runtime.app.app_context():
            settled = settle_row(runtime, won.fence.job_id)
            assert settled is not None
            return settled.job.status

    with heard(runtime.app) as signals, ThreadPoolExecutor(6) as threads:
        list(threads.map(look, range(6)))
    assert status_of(runtime, won.fence.job_id)[0] == "interrupted"
    assert [action for action, *_ in history(runtime, won.fence.job_id)].count("end") == 1
    assert len(signals) == 1
    assert_sound(runtime)


def test_who_holds_a_lock_after_settling(runtime: Runtime, sleeper: Identity) -> None:
    assert holder_settled(runtime, "free") is None

    dead = start(runtime, queue(runtime, lock_key="dead"), worker=DEAD)
    assert holder_settled(runtime, "dead") is None
    assert status_of(runtime, dead.fence.job_id)[0] == "interrupted"

    alive = start(runtime, queue(runtime, lock_key="alive"), worker=sleeper)
    holder = holder_settled(runtime, "alive")
    assert holder is not None
    assert holder.id == alive.fence.job_id

    end_as(runtime, start(runtime, queue(runtime, lock_key="lost"), worker=ELSEWHERE), "lost")
    holder = holder_settled(runtime, "lost")
    assert holder is not None
    assert holder.status == "lost"
