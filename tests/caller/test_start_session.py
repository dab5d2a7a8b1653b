"""A start with `session=`, and what a row is told of who acts and from where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flask_jobrunner.caller.start import start
from flask_jobrunner.handlers import Handler
from flask_jobrunner.runtime import Runtime
from tests.helpers import launchers
from tests.helpers.launchers import FakeLauncher
from tests.helpers.reports import heard
from tests.helpers.stores import (
    everything,
    history,
    owned,
    row,
)

TYPE = "host.nothing"


def rows(runtime: Runtime) -> int:
    return len(everything(runtime)["jobrun_jobs"])


# -- who acts, and where the page is ----------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "stored"),
    [
        ("ann", "ann"),
        (None, None),
        (42, "42"),
        ("x" * 500, "x" * 191),
        ("ü" * 191, "ü" * 95),
        ("a\0b\ud800", "a\\u0000b\\ud800"),
    ],
)
def test_whatever_the_host_says_about_who_acts_is_stored(
    runtime: Runtime,
    launcher: FakeLauncher,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    stored: str | None,
) -> None:
    monkeypatch.setattr(runtime.hooks, "actor", lambda: answer)
    job = start(runtime, TYPE).job
    assert job is not None
    assert owned(runtime, job).job.actor == stored
    assert runtime.events.of(job.id)[0].actor == stored
    named = start(runtime, TYPE, actor="bob").job
    assert named is not None
    assert named.actor == "bob"


def test_the_address_of_the_request_is_kept(runtime: Runtime, launcher: FakeLauncher) -> None:
    with runtime.app.test_request_context("/x", base_url="https://shop.test:8443/app/"):
        job = start(runtime, TYPE).job
    assert job is not None
    assert row(runtime, job.id)["base_url"] == "https://shop.test:8443/app"
    without = start(runtime, TYPE).job
    assert without is not None
    assert row(runtime, without.id)["base_url"] is None


@pytest.mark.parametrize(
    "runtime_config",
    [
        {
            "JOBRUNNER_QUEUE_BUDGET": 60,
            "JOBRUNNER_REVISION": "r1",
            "JOBRUNNER_CLAIM_WINDOW": 5,
            "JOBRUNNER_ACK_TIMEOUT": 0.5,
            "JOBRUNNER_BASE_URL": "https://jobs.test/",
        }
    ],
)
def test_settings_reach_row_and_envelope(runtime: Runtime, launcher: FakeLauncher) -> None:
    result = start(runtime, TYPE)
    assert result.job is not None
    stored = row(runtime, result.job.id)
    assert stored["queue_deadline"] == stored["created_at"] + 60_000_000
    assert stored["claim_deadline"] == stored["created_at"] + 5_000_000
    assert (stored["revision"], stored["config_digest"]) == ("r1", runtime.config.digest)
    assert stored["base_url"] == "https://jobs.test"
    assert launcher.last.envelope.revision == "r1"
    assert launcher.last.envelope.claim_window == 5.0
    assert launcher.last.waited == [0.5]


def test_a_handler_s_queue_budget_goes_before_the_setting(
    runtime: Runtime, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Handler(job_type=TYPE, function=lambda ctx: None, queue_budget=7.0)
    monkeypatch.setattr(runtime.handlers, "find", lambda _type: handler)
    job = start(runtime, TYPE).job
    assert job is not None
    stored = row(runtime, job.id)
    assert stored["queue_deadline"] == stored["created_at"] + 7_000_000


# -- in the host's transaction ----------------------------------------------------------------


def test_with_a_session_it_is_launched_after_the_commit(
    runtime: Runtime, launcher: FakeLauncher
) -> None:
    """Real sessions are the acceptance tests' matter; here, what the caller does around it."""
    from tests.host_app import db

    launcher.deed = launchers.claimed
    with heard(runtime.app) as signals:
        result = start(runtime, TYPE, {"a": 1}, session=db.session, wait=5)
        assert (result.status, result.ok) == ("launching", True)
        assert result.job is not None
        assert launcher.launched == []
        assert signals == []
        db.session.commit()
    assert launcher.last.waited == []
    assert launcher.last.envelope.job_uuid == result.job.uuid
    stored = row(runtime, result.job.id)
    assert stored["worker_token_hash"] is not None
    assert stored["claim_deadline"] == stored["launched_at"] + 30_000_000
    assert signals == [("created", result.job.uuid, "queued")]


def test_a_launch_that_fails_after_the_commit_ends_the_row_and_not_the_host(
    runtime: Runtime, launcher: FakeLauncher, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.host_app import db

    launcher.fail("no more processes")
    job = start(runtime, TYPE, session=db.session).job
    db.session.commit()
    assert job is not None
    assert owned(runtime, job).job.error_reason_code == "launch_failed"
    assert "no more processes" in caplog.text


@pytest.mark.parametrize("how", ["cancelled", "rolled back"])
def test_what_is_gone_at_the_commit_is_not_launched(
    runtime: Runtime, launcher: FakeLauncher, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.host_app import db

    job = start(runtime, TYPE, session=db.session).job
    assert job is not None
    if how == "rolled back":
        db.session.rollback()
        assert rows(runtime) == 0
    else:
        mint: Callable[..., bool] = runtime.jobs.mint

        def too_late(*arguments: Any) -> bool:
            runtime.jobs.cancel_queued(job.id, 1, None)
            return mint(*arguments)

        monkeypatch.setattr(runtime.jobs, "mint", too_late)
        db.session.commit()
        assert history(runtime, job.id)[-1] == ("cancel", "queued", "cancelled")
    assert launcher.launched == []
