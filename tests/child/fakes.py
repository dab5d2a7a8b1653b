"""Records as the child's tests need them."""

from __future__ import annotations

from datetime import UTC, datetime

from flask_jobrunner.model.records import NOBODY, Claim, Fence, Job, OwnedJob

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_job() -> Job:
    """A running job."""
    return Job(
        id=7,
        uuid="01890000-0000-7000-8000-000000000007",
        job_type="test.job",
        title="A title",
        status="running",
        is_active=True,
        is_terminal=False,
        is_stale=False,
        stop_reason=None,
        attempt=1,
        priority=0,
        owner="ann",
        reference="import:42",
        actor="bob",
        lock_key=None,
        payload={"a": 1},
        current_step_key=None,
        current_step_label=None,
        step_index=None,
        step_total=None,
        progress_done=None,
        progress_total=None,
        warning_count=0,
        error_count=0,
        created_at=NOW,
        queued_at=NOW,
        not_before=None,
        started_at=NOW,
        handler_started_at=None,
        heartbeat_at=NOW,
        finished_at=None,
        updated_at=NOW,
        error_class=None,
        error_reason_code=None,
        error_message=None,
    )


def an_owned_job() -> OwnedJob:
    """The same with its ownership."""
    return OwnedJob(
        job=a_job(),
        claim_mode="token",
        has_credential=False,
        worker_token="t" * 64,
        worker=NOBODY,
        parent=NOBODY,
        lease_until=0,
        claim_deadline=None,
        queue_deadline=None,
        run_deadline=None,
        heartbeat=1,
        now=1,
        revision=None,
        config_digest=None,
        row_version=2,
        log_seq=0,
        base_url="https://shop.example",
        result_json=None,
        payload_json='{"a":1}',
    )


def a_claim() -> Claim:
    """A claim of it."""
    fence = Fence(job_id=7, attempt=1, token="t" * 64)
    return Claim(fence=fence, attempt_id=70, claimed_at=1_000_000, owned=an_owned_job())
