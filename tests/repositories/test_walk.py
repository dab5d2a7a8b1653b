"""Random walks of one lock key's jobs against a model in plain Python, alike on every database.

Whoever writes may be late: fences, records and credentials of earlier attempts stay in use. After
each step the answer and the row must be what the model says, and the invariants must hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from flask_jobrunner.model.records import Claim, Fence, Job, Outcome, OwnedJob, Verdict
from flask_jobrunner.model.statuses import STOP_REASONS
from flask_jobrunner.protocol.envelope import hash_credential
from tests.helpers.stores import (
    ELSEWHERE,
    Store,
    assert_sound,
    change,
    lines,
    new_job,
    owned,
    row,
    try_claim,
)

STEPS = 70
ENDS = ("succeeded", "failed", "interrupted", "cancelled")
VERDICTS = ("interrupted", "failed", "cancelled", "lost")


@dataclass
class Model:
    """What the row should be."""

    status: str = "queued"
    attempt: int = 1
    credential: str | None = None
    token: str | None = None
    log_seq: int = 0
    started: bool = False
    stop: str | None = None
    version: int = 1
    renewals: int = 0

    @property
    def owned(self) -> bool:
        return self.status in {"running", "cancel_requested"}

    @property
    def holds_lock(self) -> bool:
        return self.owned or self.status in {"queued", "lost"}

    def knows(self, fence: Fence) -> bool:
        return self.owned and (fence.token, fence.attempt) == (self.token, self.attempt)

    def moved(self, status: str) -> None:
        self.status = status
        self.version += 1

    def ended(self, status: str, new_lines: int) -> None:
        self.moved(status)
        self.log_seq += new_lines
        self.credential = None


@dataclass
class Walk:
    """One walk, with everything that anybody ever held."""

    store: Store
    random: random.Random
    job: Job
    model: Model
    fences: list[Fence] = field(default_factory=list)
    credentials: list[tuple[str, int]] = field(default_factory=list)
    seen: list[tuple[OwnedJob, int]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def fence(self) -> Fence:
        return self.random.choice(self.fences[-3:]) if self.fences else self.stranger()

    def stranger(self) -> Fence:
        return Fence(job_id=self.job.id, attempt=self.model.attempt, token="stranger")

    def seq(self) -> int:
        return max(0, self.model.log_seq + self.random.choice([0, 0, 0, 0, -1, 1]))


def claim(walk: Walk) -> None:
    credential, attempt = walk.random.choice(walk.credentials[-3:])
    token = f"token {len(walk.fences)}"
    won: Claim | None = try_claim(
        walk.store,
        replace(walk.job, attempt=attempt),
        credential=credential,
        token=token,
        worker=ELSEWHERE,
    )
    model = walk.model
    wins = model.status == "queued" and (credential, attempt) == (model.credential, model.attempt)
    assert (won is not None) == wins
    if won is not None:
        model.moved("running")
        model.credential, model.token, model.started = None, token, False
        walk.fences.append(won.fence)


def mark(walk: Walk) -> None:
    fence, model = walk.fence(), walk.model
    assert walk.store.ownership.mark_started(fence, None) == model.knows(fence)
    if model.knows(fence) and not model.started:
        model.started = True
        model.version += 1


def beat(walk: Walk) -> None:
    fence, model, seq = walk.fence(), walk.model, walk.seq()
    count = walk.random.randint(0, 3)
    answer = walk.store.ownership.beat(fence, lines=lines(*"abc"[:count]), last_seq=seq)
    fits = seq == model.log_seq or not count
    repeated = count > 0 and seq + count == model.log_seq
    assert (answer is not None) == (model.knows(fence) and (fits or repeated))
    if answer is not None:
        assert (answer.status, answer.stop_reason) == (model.status, model.stop)
        if fits:
            model.log_seq += count
            model.renewals += 1


def stop(walk: Walk) -> None:
    fence, model = walk.fence(), walk.model
    reason = walk.random.choice(STOP_REASONS[:3])
    rises = model.stop is None or STOP_REASONS.index(reason) > STOP_REASONS.index(model.stop)
    raised = walk.store.ownership.set_stop_reason(fence, reason)
    assert raised == (model.knows(fence) and rises)
    if raised:
        model.stop = reason
        model.version += 1


def cancel(walk: Walk) -> None:
    model = walk.model
    attempt = model.attempt - walk.random.choice([0, 0, 0, 1])
    mine = attempt == model.attempt
    queued = walk.store.jobs.cancel_queued(walk.job.id, attempt, "ann")
    assert queued == (mine and model.status == "queued")
    if queued:
        model.ended("cancelled", 0)
        model.stop = "cancel"
        return
    asked = walk.store.jobs.request_cancel(walk.job.id, attempt, "ann")
    assert asked == (mine and model.status == "running")
    if asked:
        model.moved("cancel_requested")
        model.stop = "cancel"


def fail(walk: Walk) -> None:
    model = walk.model
    attempt = model.attempt - walk.random.choice([0, 1])
    failed = walk.store.jobs.fail_queued(walk.job.id, attempt, "launch_failed", message="no")
    assert failed == (model.status == "queued" and attempt == model.attempt)
    if failed:
        model.ended("failed", 0)


def finish(walk: Walk) -> None:
    fence, model, seq = walk.fence(), walk.model, walk.seq()
    status: Any = walk.random.choice(ENDS)
    count = walk.random.randint(0, 2)
    before = model.status
    done = walk.store.endings.finish(
        fence, Outcome(status=status), lines=lines(*"ab"[:count]), last_seq=seq
    )
    if model.knows(fence) and seq == model.log_seq:
        assert done is not None
        asked = before == "cancel_requested"
        final = (
            ("failed" if status == "failed" else "cancelled")
            if asked
            else ("failed" if status == "cancelled" else status)
        )
        assert done.job.status == final
        model.ended(final, count + 1)
        walk.told.append(f"{fence.token} {fence.attempt}")
    elif done is not None:
        # An end of its own that it had been told of before, and no requeue since.
        assert f"{fence.token} {fence.attempt}" in walk.told
        assert done.job.status == model.status
        assert done.job.attempt == model.attempt == fence.attempt


def look(walk: Walk) -> None:
    walk.seen.append((owned(walk.store, walk.job), walk.model.renewals))


def judge(walk: Walk) -> None:
    look(walk)
    record, renewals = walk.random.choice(walk.seen[-3:])
    model = walk.model
    status: Any = walk.random.choice(VERDICTS)
    count = walk.random.randint(0, 2)
    done = walk.store.endings.end_dead(
        record,
        Verdict(status=status, reason="process_died", message="It died."),
        lines=lines(*"ab"[:count]),
    )
    as_seen = model.owned and (record.row_version, renewals) == (model.version, model.renewals)
    allowed = record.job.status == "running" or status != "interrupted"
    assert done == (as_seen and allowed)
    if done:
        model.ended(status, count + 1)


def requeue(walk: Walk) -> None:
    look(walk)
    record, _ = walk.random.choice(walk.seen[-3:])
    model, credential = walk.model, f"{len(walk.credentials):064x}"
    moved = walk.store.jobs.requeue(
        record.job,
        credential_hash=hash_credential(credential),
        claim_window=60.0,
        queue_budget=None,
        revision=None,
        config_digest="",
        actor=None,
    )
    can = model.status in {"interrupted", "failed", "cancelled", "lost"}
    same = (record.job.status, record.job.attempt) == (model.status, model.attempt)
    assert bool(moved) == (can and same)
    if moved:
        model.moved("queued")
        model.attempt += 1
        model.credential, model.token = credential, None
        model.started, model.stop = False, None
        walk.credentials.append((credential, model.attempt))


def renewed_elsewhere(walk: Walk) -> None:
    """A renewal that the watcher has not seen."""
    if walk.model.owned and walk.fences:
        change(walk.store, walk.job.id, lease_until=row(walk.store, walk.job.id)["lease_until"] + 1)
        walk.model.renewals += 1


DEEDS: list[tuple[Callable[[Walk], None], int]] = [
    (claim, 5),
    (mark, 3),
    (beat, 6),
    (stop, 1),
    (cancel, 2),
    (fail, 1),
    (finish, 2),
    (judge, 2),
    (look, 1),
    (requeue, 3),
    (renewed_elsewhere, 1),
]


@pytest.mark.parametrize("seed", range(6))
def test_a_walk(store: Store, seed: int) -> None:
    credential = "ab" * 32
    job = store.jobs.add(new_job(lock_key="k", credential_hash=hash_credential(credential)))
    assert job is not None
    walk = Walk(store, random.Random(seed), job, Model(credential=credential))
    walk.credentials.append((credential, 1))
    deeds, weights = zip(*DEEDS, strict=True)
    visited = set()
    for _ in range(STEPS):
        walk.random.choices(deeds, weights)[0](walk)
        check(walk)
        visited.add(walk.model.status)
    assert_sound(store)
    assert len(visited) >= 4, visited


def check(walk: Walk) -> None:
    found, model = row(walk.store, walk.job.id), walk.model
    assert (found["status"], found["attempt"]) == (model.status, model.attempt)
    assert (found["row_version"], found["log_seq"]) == (model.version, model.log_seq)
    assert (found["stop_reason"], found["worker_token"]) == (model.stop, model.token)
    assert (found["worker_token_hash"] is not None) == (model.credential is not None)
    assert (found["active_lock_key"] is not None) == model.holds_lock
