"""What holds of the rows at any moment, and of any one change of them."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from flask_jobrunner.model.statuses import (
    ACTIVE,
    OWNED,
    STOP_REASONS,
    TERMINAL,
    JobStatus,
    may_move,
)

Row = dict[str, Any]
Content = dict[str, list[Row]]
# What a beat writes, and retention: a reader's compare-and-set must not fail for them.
_QUIET = frozenset(
    {"heartbeat_at", "lease_until", "log_seq", "log_bytes", "warning_count", "error_count"}
    | {"current_step_key", "current_step_label", "step_index", "step_total"}
    | {"progress_done", "progress_total"}
)
# The parent's report adds lines after the end, and says so in the version.
_AFTER_THE_END = _QUIET | {"row_version"}


def check_content(content: Content) -> None:
    keys = [job["active_lock_key"] for job in content["jobs"] if job["active_lock_key"]]
    assert len(keys) == len(set(keys)), "two active jobs hold one key"
    tokens = [one["worker_token"] for one in content["attempts"]]
    assert len(tokens) == len(set(tokens)), "a token was used twice"
    for name in ("attempts", "events", "logs"):
        assert all(row["job"] is not None for row in content[name]), f"{name} without their job"
    for job in content["jobs"]:
        _check_job(job)
        _check_lines(job, [line["seq"] for line in _of(job, content["logs"])])
        _check_events(job, _of(job, content["events"]), _of(job, content["attempts"]))


def _of(job: Row, rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["job"] == job["job_uuid"]]


def _check_job(job: Row) -> None:
    active, status = job["status"] in ACTIVE, job["status"]
    assert (job["finished_at"] is None) == active, "an end without a time, or a time without an end"
    held = job["active_lock_key"] is not None
    assert held == (job["lock_key"] is not None and (active or status == "lost")), "the lock"
    owned = status in OWNED
    assert not owned or None not in (job["worker_token"], job["lease_until"]), "nobody owns it"
    assert status == "queued" or job["worker_token_hash"] is None, "a credential outlived its claim"
    if status in ("cancel_requested", "cancelled"):
        assert job["stop_reason"] in ("cancel", "force"), "cancelled without anybody asking"


def _check_lines(job: Row, seqs: list[int]) -> None:
    last = job["log_seq"]
    # Retention removes the first lines; what is left goes on to the last one without a gap.
    assert seqs == list(range(last - len(seqs) + 1, last + 1)), "log numbers have a gap"


def _check_events(job: Row, events: list[Row], attempts: list[Row]) -> None:
    moves = [event for event in events if event["to_status"] is not None]
    assert moves[-1]["to_status"] == job["status"], "the last event is not the status"
    for before, after in itertools.pairwise(moves):
        assert after["from_status"] == before["to_status"], "a move that no event tells"
    claims = Counter(event["attempt"] for event in events if event["action"] == "claim")
    assert claims == Counter(one["attempt"] for one in attempts), "a claim and its attempt's row"
    assert all(number == 1 for number in claims.values()), "an attempt was claimed twice"
    # Closing what was lost is the second word on an attempt, and the only one.
    ends = Counter(
        event["attempt"]
        for event in moves
        if event["to_status"] in TERMINAL and event["action"] != "close"
    )
    assert all(number == 1 for number in ends.values()), "an attempt ended twice"


def check_change(before: Content, after: Content) -> None:
    now = {job["job_uuid"]: job for job in after["jobs"]}
    for old in before["jobs"]:
        new = now.get(old["job_uuid"])
        if new is None:
            assert old["status"] in TERMINAL - {JobStatus.LOST}, "an unfinished job was removed"
            continue
        _check_move(old, new)
    kept = {uuid for uuid in now if any(old["job_uuid"] == uuid for old in before["jobs"])}
    for name in ("events", "attempts"):
        _check_history(name, before[name], after[name], kept)


def _check_move(old: Row, new: Row) -> None:
    changed = {name for name in old if old[name] != new[name]}
    grown = new["row_version"] - old["row_version"]
    assert grown == bool(grown), "the version grew by more than one"
    assert grown == 1 or changed <= _QUIET, f"{changed - _QUIET} changed under one version"
    if old["status"] != new["status"]:
        assert may_move(old["status"], new["status"]), (old["status"], new["status"])
    elif old["status"] in TERMINAL:
        assert changed <= _AFTER_THE_END, f"{changed} changed after the end"
    assert new["log_seq"] >= old["log_seq"], "lines were taken back"
    step = new["attempt"] - old["attempt"]
    assert step == 0 or (step == 1 and new["status"] == "queued"), "the attempt"
    if step == 0:
        _check_attempt(old, new)


def _check_attempt(old: Row, new: Row) -> None:
    """Within one attempt some things only rise, or are set once."""
    assert _rank(new["stop_reason"]) >= _rank(old["stop_reason"]), "a stop was taken back"
    for name in ("worker_token", "started_at", "handler_started_at"):
        assert old[name] in (None, new[name]), f"{name} was set twice"


def _rank(reason: str | None) -> int:
    return -1 if reason is None else STOP_REASONS.index(reason)


def _check_history(name: str, before: list[Row], after: list[Row], kept: set[str]) -> None:
    """Rows are added at the end. An attempt's row is closed once and never opened again."""
    old = [row for row in before if row["job"] in kept]
    new = [row for row in after if row["job"] in kept][: len(old)]
    assert len(new) == len(old), f"{name} were removed"
    for first, second in zip(old, new, strict=True):
        same = [key for key, value in first.items() if name == "events" or value is not None]
        assert [first[key] for key in same] == [second[key] for key in same], f"{name} changed"
