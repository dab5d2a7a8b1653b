"""What `jobs.start` answers in every case, and that bad input makes no row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flask_jobrunner.caller.start import start
from flask_jobrunner.model.errors import (
    DatabaseAway,
    JobRunnerError,
    LaunchUnknown,
    LockBusy,
)
from flask_jobrunner.runtime import Runtime
from tests.helpers import launchers
from tests.helpers.launchers import FakeHandle, FakeLauncher
from tests.helpers.reports import heard, printed
from tests.helpers.stores import (
    DEAD,
    assert_sound,
    change,
    everything,
    owned,
)
from tests.helpers.stores import queue as queued_row
from tests.helpers.stores import start as started_row

TYPE = "host.nothing"


def rows(runtime: Runtime) -> int:
    return len(everything(runtime)["jobrun_jobs"])


# -- the answers ------------------------------------------------------------------------------


def test_started_when_the_claim_is_committed(runtime: Runtime, launcher: FakeLauncher) -> None:
    launcher.deed = launchers.claimed
    with heard(runtime.app) as signals:
        result = start(runtime, TYPE, {"a": 1}, lock_key="k", title="T", owner="ann", actor="bob")
    assert (result.status, result.ok, result.reason_code) == ("started", True, None)
    assert result.job is not None
    assert result.job.status == "running"
    assert (result.job.title, result.job.owner, result.job.actor) == ("T", "ann", "bob")
    assert result.job.payload == {"a": 1}
    assert launcher.last.waited == [10.0]
    assert signals == [("created", result.job.uuid, "queued")]
    values = result.to_dict()
    assert (values["status"], values["ok"], values["job"]["uuid"]) == (
        "started",
        True,
        result.job.uuid,
    )
    json.dumps(values)


def test_the_envelope_names_the_row_and_its_credential_is_nowhere_else(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    result = start(runtime, TYPE)
    assert result.job is not None
    envelope = launcher.last.envelope
    assert (envelope.job_id, envelope.job_uuid) == (result.job.id, result.job.uuid)
    assert (envelope.attempt, envelope.claim_mode) == (1, "token")
    assert envelope.fingerprint == runtime.meta.ensure().fingerprint
    assert envelope.config_digest == runtime.config.digest
    assert (envelope.claim_window, envelope.lease) == (30.0, 15.0)
    secret = launchers.envelope_line(launcher.last)
    assert secret not in json.dumps(everything(runtime))
    assert secret not in json.dumps(dict(launcher.last.command.env))
    assert secret not in repr(result) + repr(envelope)


@pytest.mark.parametrize(
    ("deed", "status", "job_status"),
    [
        (launchers.waiting, "launching", "queued"),
        (launchers.claimed_silently, "started", "running"),
        (launchers.only_says_so, "launching", "queued"),
    ],
)
def test_the_row_is_believed_and_not_the_pipe(
    runtime: Runtime,
    launcher: FakeLauncher,
    deed: launchers.Deed,
    status: str,
    job_status: str,
) -> None:
    launcher.deed = deed
    result = start(runtime, TYPE)
    assert (result.status, result.ok) == (status, True)
    assert result.job is not None
    assert result.job.status == job_status


@pytest.mark.parametrize(
    ("wait", "waited"), [(True, [10.0]), (2.5, [2.5]), (1, [1.0]), (False, []), (0, [])]
)
def test_how_long_it_waits(
    runtime: Runtime, launcher: FakeLauncher, wait: float, waited: list[float]
) -> None:
    launcher.deed = launchers.waiting
    assert start(runtime, TYPE, wait=wait).status == "launching"
    assert launcher.last.waited == waited


def test_a_process_that_cannot_be_started(runtime: Runtime, launcher: FakeLauncher) -> None:
    launcher.fail("[Errno 11] Resource temporarily unavailable, password=hunter2")
    with heard(runtime.app) as signals:
        result = start(runtime, TYPE, lock_key="k")
    assert (result.status, result.ok) == ("launch_failed", False)
    assert result.reason_code == "launch_failed"
    assert "Errno 11" in (result.message or "")
    assert "hunter2" not in json.dumps(everything(runtime))
    assert result.job is not None
    assert result.job.status == "failed"
    assert runtime.jobs.holder("k") is None
    assert [name for name, *_ in signals] == ["created", "finished"]
    assert_sound(runtime)


@pytest.mark.parametrize("error", [OSError(28, "No space left"), ValueError("embedded null byte")])
def test_whatever_keeps_a_process_from_being_started_frees_the_lock(
    runtime: Runtime, launcher: FakeLauncher, error: Exception
) -> None:
    launcher.error = error
    result = start(runtime, TYPE, lock_key="k")
    assert result.status == "launch_failed"
    assert runtime.jobs.holder("k") is None


@pytest.mark.parametrize(
    ("deed", "reason", "words"),
    [
        (launchers.ended(stderr=printed("ImportError: x\n")), "launch_failed", "ImportError: x"),
        (launchers.ended(killed="claim_window", signal=9, exit_code=None), "launch_timeout", "-"),
        (launchers.ended(spawn_error="[Errno 2]"), "launch_failed", "[Errno 2]"),
        (launchers.shim_gone, "launch_failed", "ended without a report"),
        (launchers.refused("app_not_built", reported=True), "launch_failed", "could not be built"),
        (
            launchers.refused("bad_credential", reported=False),
            "launch_failed",
            "no valid credential",
        ),
    ],
)
def test_a_child_that_ended_before_it_claimed(
    runtime: Runtime, launcher: FakeLauncher, deed: launchers.Deed, reason: str, words: str
) -> None:
    launcher.deed = deed
    with heard(runtime.app) as signals:
        result = start(runtime, TYPE, lock_key="k")
    assert (result.status, result.reason_code) == ("launch_failed", reason)
    assert words in (result.message or "") or words == "-"
    assert result.job is not None
    assert (result.job.status, result.job.error_reason_code) == ("failed", reason)
    # After this answer the credential opens nothing.
    assert launchers.take(launcher.last) is None
    assert runtime.jobs.holder("k") is None
    assert [name for name, *_ in signals] == ["created", "finished"]
    # The launcher's thread records the same report as well.
    if launcher.last.report is not None:
        dump = everything(runtime)
        assert launcher.last.on_report(launcher.last.report)
        assert everything(runtime) == dump


def test_one_that_claimed_and_died_was_started(runtime: Runtime, launcher: FakeLauncher) -> None:
    def deed(handle: FakeHandle) -> Any:
        won = launchers.take(handle)
        assert won is not None
        return launchers.ended(
            token=won.fence.token, claimed=True, booted=True, signal=9, exit_code=None
        )(handle)

    launcher.deed = deed
    result = start(runtime, TYPE)
    assert (result.status, result.ok) == ("started", True)
    assert result.job is not None
    assert (result.job.status, result.job.error_reason_code) == ("interrupted", "not_started")


def test_one_that_claimed_ran_and_ended_meanwhile_was_started(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    """And was requeued since: what the row says now is about another attempt."""

    def deed(handle: FakeHandle) -> Any:
        won = launchers.take(handle)
        assert won is not None
        change(runtime, won.fence.job_id, attempt=2, status="queued", worker_token=None)
        return "waiting"

    launcher.deed = deed
    assert start(runtime, TYPE).status == "started"


def test_cancelled_before_the_claim_is_told_as_that(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    def deed(handle: FakeHandle) -> Any:
        runtime.jobs.cancel_queued(handle.envelope.job_id, 1, "ann")
        return launchers.ended()(handle)

    launcher.deed = deed
    result = start(runtime, TYPE)
    assert (result.status, result.reason_code) == ("launch_failed", "cancelled")
    assert "cancelled" in (result.message or "")
    assert result.job is not None
    assert result.job.status == "cancelled"


def test_a_reason_that_the_child_wrote_is_kept(runtime: Runtime, launcher: FakeLauncher) -> None:
    def deed(handle: FakeHandle) -> Any:
        runtime.jobs.fail_queued(
            handle.envelope.job_id, 1, "revision_mismatch", message="Made for r1; this is r2."
        )
        return launchers.ended(exit_code=5)(handle)

    launcher.deed = deed
    result = start(runtime, TYPE)
    assert (result.status, result.reason_code) == ("launch_failed", "revision_mismatch")
    assert result.message == "Made for r1; this is r2."


def test_a_report_that_is_none_says_nothing(runtime: Runtime, launcher: FakeLauncher) -> None:
    def deed(handle: FakeHandle) -> Any:
        handle.report = b"{}\n"
        return "ended"

    launcher.deed = deed
    assert start(runtime, TYPE).reason_code == "launch_failed"
    assert not launcher.last.on_report(b"garbage\n")


# -- the lock ---------------------------------------------------------------------------------


def test_already_active_shows_the_holder_and_makes_no_row(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    launcher.deed = launchers.claimed
    first = start(runtime, TYPE, lock_key="k")
    dump = everything(runtime)
    with heard(runtime.app) as signals:
        second = start(runtime, "host.script", lock_key="k")
    assert (second.status, second.ok) == ("already_active", False)
    assert second.job is not None
    assert first.job is not None
    assert second.job.uuid == first.job.uuid
    assert second.job.status == "running"
    assert first.job.uuid in (second.message or "")
    assert everything(runtime) == dump
    assert signals == []
    assert len(launcher.launched) == 1


@pytest.mark.parametrize("key", [None, "", "  ", "\t\n"])
def test_blank_keys_run_in_parallel(
    runtime: Runtime, launcher: FakeLauncher, key: str | None
) -> None:
    assert start(runtime, TYPE, lock_key=key).status == "launching"
    assert start(runtime, TYPE, lock_key=key).status == "launching"
    assert rows(runtime) == 2


def test_a_key_is_kept_exactly_as_given(runtime: Runtime, launcher: FakeLauncher) -> None:
    for key in ("A", "a", "A ", " A"):
        result = start(runtime, TYPE, lock_key=key)
        assert result.status == "launching"
        assert result.job is not None
        assert result.job.lock_key == key


@pytest.mark.parametrize("how", ["dead owner", "late claim"])
def test_a_holder_that_is_over_is_settled_and_makes_way(
    runtime: Runtime, launcher: FakeLauncher, how: str
) -> None:
    old = queued_row(runtime, lock_key="k")
    if how == "dead owner":
        started_row(runtime, old, worker=DEAD)
    else:
        change(runtime, old.id, claim_deadline=1)
    result = start(runtime, TYPE, lock_key="k")
    assert result.status == "launching"
    assert not owned(runtime, old).job.is_active
    assert_sound(runtime)


def test_a_lock_that_changes_hands_all_the_time_is_busy(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.jobs, "add", lambda _new: None)
    with pytest.raises(LockBusy, match="'k'"):
        start(runtime, TYPE, lock_key="k")


def test_the_first_of_many_tries_may_lose_and_the_next_win(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, lost = runtime.jobs.add, [True]
    monkeypatch.setattr(runtime.jobs, "add", lambda new: None if lost and lost.pop() else add(new))
    assert start(runtime, TYPE, lock_key="k").status == "launching"


# -- the database goes away -------------------------------------------------------------------


def test_away_before_the_commit_nothing_is_started(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise DatabaseAway("The database could not be reached.")

    runtime.meta.ensure()
    monkeypatch.setattr(runtime.jobs, "add", away)
    with pytest.raises(DatabaseAway):
        start(runtime, TYPE)
    assert launcher.launched == []


@pytest.mark.parametrize("error", [DatabaseAway("It is gone."), LockBusy("It is locked.")])
@pytest.mark.parametrize(
    ("deed", "method"),
    [
        (launchers.claimed, "jobs.get"),
        (launchers.claimed, "events.was_claimed"),
        (launchers.shim_gone, "jobs.fail_queued"),
        (launchers.ended(), "jobs.fail_queued"),
    ],
)
def test_away_after_the_launch_it_is_unknown_and_never_failed(
    runtime: Runtime,
    launcher: FakeLauncher,
    monkeypatch: pytest.MonkeyPatch,
    error: JobRunnerError,
    deed: launchers.Deed,
    method: str,
) -> None:
    repository, _, name = method.partition(".")

    def goes_away_then(handle: FakeHandle) -> Any:
        answer = deed(handle)

        def away(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(getattr(runtime, repository), name, away)
        return answer

    launcher.deed = goes_away_then
    with pytest.raises(LaunchUnknown) as unknown:
        start(runtime, TYPE)
    assert unknown.value.job_uuid == launcher.last.envelope.job_uuid
    assert unknown.value.job_uuid in str(unknown.value)
    assert unknown.value.__cause__ is error
    monkeypatch.undo()
    assert rows(runtime) == 1


def test_away_when_no_process_could_be_started_is_unknown_too(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise DatabaseAway("It is gone.")

    launcher.fail()
    monkeypatch.setattr(runtime.jobs, "fail_queued", away)
    with pytest.raises(LaunchUnknown):
        start(runtime, TYPE)
