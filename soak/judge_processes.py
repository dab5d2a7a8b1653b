"""Checks of what ran: by the ledger, the claimed attempts and the processes."""

from __future__ import annotations

from collections import Counter, defaultdict

from flask_jobrunner.model.statuses import TERMINAL
from soak.evidence import Evidence, per_job
from soak.views import LOOSE, Found, attempts_of, moves_of, starts_of


def handler_starts_once(seen: Evidence) -> Found:
    """I1: a handler starts at most once per attempt."""
    for (uuid, attempt), times in starts_of(seen).items():
        if times > 1:
            yield uuid, f"its handler started {times} times in attempt {attempt}"


def stale_owner_writes_nothing(seen: Evidence) -> Found:
    """I4: no line of an attempt stands behind those of a later one."""
    uuids = seen.uuids
    for job, lines in per_job(seen.logs).items():
        attempts = [line["attempt"] for line in sorted(lines, key=lambda line: line["seq"])]
        if attempts != sorted(attempts):
            yield uuids.get(job, str(job)), "an earlier attempt wrote behind a later one"


def refused_never_runs(seen: Evidence) -> Found:
    """I5: what failed before its claim never starts; told to a caller or written in a row."""
    starts = starts_of(seen)
    for call in seen.answers("start"):
        if call["answer"] == "fail" and starts[call.get("uuid", "-"), 1]:
            yield call["uuid"], "its caller was told that it failed, and its handler started"
    for uuid, moves in moves_of(seen):
        for move in moves:
            unclaimed = move["from_status"] == "queued" and move["to_status"] in TERMINAL
            if unclaimed and starts[uuid, move["attempt"]]:
                yield uuid, f"attempt {move['attempt']} ended unclaimed, and its handler started"


def nothing_starts_ended(seen: Evidence) -> Found:
    """I8: the marker is written before the handler starts, and the attempt has not ended then."""
    attempts = attempts_of(seen)
    for note in seen.noted("start"):
        row = attempts.get((note["uuid"], note["attempt"]))
        if row is None:
            continue
        if row["handler_started_at"] is None:
            yield note["uuid"], f"attempt {note['attempt']} started without a marker"
        if row["ended_at"] is not None and note["wall"] * 1e6 > row["ended_at"] + LOOSE:
            yield note["uuid"], f"attempt {note['attempt']} started after its end"


def process_owns_its_attempt(seen: Evidence) -> Found:
    """I9: who runs an attempt is who claimed it."""
    attempts = attempts_of(seen)
    for note in seen.noted("start"):
        row = attempts.get((note["uuid"], note["attempt"]))
        if row is None or (row["worker_pid"], row["id"]) != (note["pid"], note["fence"]):
            yield note["uuid"], f"process {note['pid']} ran attempt {note['attempt']} of another"


def living_owner_is_left_alone(seen: Evidence) -> Found:
    """I10: whoever was judged dead does nothing afterwards."""
    judged = {
        (seen.uuids.get(event["job_id"]), int(event["attempt"])): event["at"]
        for event in seen.events
        if event["action"] == "end" and event["to_status"] != "lost"
    }
    for note in seen.ledger:
        at = judged.get((note["uuid"], note["attempt"]))
        if at is not None and note["wall"] * 1e6 > at + LOOSE:
            yield note["uuid"], f"attempt {note['attempt']} was judged dead and goes on"


def bystanders_live(seen: Evidence) -> Found:
    """I14: nobody else's process was signalled."""
    for pid in seen.bystanders_gone:
        yield "-", f"process {pid}, which is no job's, was ended"


def success_means_returned(seen: Evidence) -> Found:
    """I15: what succeeded had reached its last line."""
    returned = {(note["uuid"], note["attempt"]) for note in seen.noted("end")}
    for (uuid, attempt), row in attempts_of(seen).items():
        if row["end_status"] == "succeeded" and (uuid, attempt) not in returned:
            yield uuid, f"attempt {attempt} succeeded, and its handler never returned"


def attempts_grow(seen: Evidence) -> Found:
    """I16: tokens never repeat, fences grow with the attempts."""
    uuids = seen.uuids
    for token, times in Counter(row["worker_token"] for row in seen.attempts).items():
        if times > 1:
            yield "-", f"the worker token {token[:8]}… was used {times} times"
    for job, rows in per_job(seen.attempts).items():
        numbers = [row["attempt"] for row in rows]
        if numbers != sorted(set(numbers)):
            yield uuids.get(job, str(job)), f"its attempts were claimed as {numbers}"


def slots_are_kept(seen: Evidence) -> Found:
    """I19: a supervisor runs no more jobs at once than it has slots."""
    for text in seen.crowds:
        yield "-", text
    parents: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in seen.attempts:
        if row["mode"] == "trusted" and row["ended_at"] is not None:
            parent = (row["parent_pid"], row["parent_ticks"])
            parents[parent] += [(row["claimed_at"], 1), (row["ended_at"], -1)]
    for parent, changes in parents.items():
        running = most = 0
        for _, change in sorted(changes):
            running += change
            most = max(most, running)
        if most > seen.slots:
            yield "-", f"supervisor {parent[0]} ran {most} jobs at once"
