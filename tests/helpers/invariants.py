"""What holds in a database at any moment, whatever happened: read with plain SQL.

Numbers as in the list of invariants: I1 one start an attempt, I3 one end an attempt, I6 the lock,
I7 log numbers, I15 no success without a result, I16 attempts and tokens, I20 orphans, I21 no half
transactions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import sqlalchemy as sa

ACTIVE = {"queued", "running", "cancel_requested"}
Rows = list[Mapping[str, Any]]


def check(database: sa.Engine, ledgers: Mapping[int, Path] | None = None) -> list[str]:
    """The violations. `ledgers`: by job id, the file to which its handler appends a line
    `start ATTEMPT …` or `end ATTEMPT …`.
    """
    names = ("jobs", "attempts", "logs", "events", "files")
    # One snapshot: a row that moves between two reads would look like a violation. On a connection
    # of its own: those of the pool may have been cut, or be within a transaction.
    own = sa.create_engine(database.url, poolclass=sa.NullPool)
    if database.dialect.name == "postgresql":
        own = own.execution_options(isolation_level="REPEATABLE READ")
    with own.connect() as connection:
        found: dict[str, Rows] = {}
        for name in names:
            statement = sa.text(f"SELECT * FROM jobrun_{name} ORDER BY id")
            found[name] = [*connection.execute(statement).mappings()]
    jobs = {row["id"]: row for row in found["jobs"]}
    violations = list(_orphans(jobs, found))
    violations += _tokens(found["attempts"])
    of = {name: _by_job(found[name]) for name in names[1:]}
    for number, job in jobs.items():
        here = [
            *_lock(job),
            *_lines(job, of["logs"][number]),
            *_ends(of["events"][number]),
            *_whole(job, of["attempts"][number], of["events"][number]),
            *_attempts(job, of["attempts"][number]),
        ]
        ledger = (ledgers or {}).get(number)
        here += _ledger(job, of["attempts"][number], ledger) if ledger is not None else []
        violations += [f"job {number}: {text}" for text in here]
    return violations


def _by_job(rows: Rows) -> defaultdict[int, Rows]:
    found: defaultdict[int, Rows] = defaultdict(list)
    for row in rows:
        found[row["job_id"]].append(row)
    return found


def _lock(job: Mapping[str, Any]) -> Iterable[str]:
    held, asked = job["active_lock_key"] is not None, job["lock_key"] is not None
    if job["status"] in ACTIVE and held != asked:
        yield f"I6: {job['status']} with lock {held}, key {asked}"
    if job["status"] not in ACTIVE | {"lost"} and held:
        yield f"I6: {job['status']} and still holds its lock"


def _lines(job: Mapping[str, Any], logs: Rows) -> Iterable[str]:
    numbers = [row["seq"] for row in logs]
    # Retention removes the first lines.
    if numbers and numbers != list(range(numbers[0], job["log_seq"] + 1)):
        yield f"I7: lines {numbers}, but log_seq {job['log_seq']}"


def _ends(events: Rows) -> Iterable[str]:
    moves = [row for row in events if row["to_status"] is not None]
    ends = Counter(
        row["attempt"]
        for row in moves
        # Closing a lost job is an end's end, and is allowed.
        if row["to_status"] not in ACTIVE and row["from_status"] != "lost"
    )
    for attempt, count in ends.items():
        if count > 1:
            yield f"I3: attempt {attempt} ended {count} times"
    for before, after in pairwise(moves):
        if after["from_status"] != before["to_status"]:
            yield f"I21: {before['to_status']} became {after['from_status']} without an event"


def _whole(job: Mapping[str, Any], attempts: Rows, events: Rows) -> Iterable[str]:
    """The parts that one transaction writes are all there, or none is."""
    moves = [row["to_status"] for row in events if row["to_status"] is not None]
    if not moves or moves[-1] != job["status"]:
        yield f"I21: {job['status']}, but the last event says {moves[-1:]}"
    claims = [row["attempt"] for row in events if row["action"] == "claim"]
    if claims != [row["attempt"] for row in attempts]:
        yield f"I21: claims {claims}, attempts {[row['attempt'] for row in attempts]}"
    current = [row for row in attempts if row["attempt"] == job["attempt"]]
    open_ = [row["attempt"] for row in attempts if row["ended_at"] is None]
    owned = job["status"] in {"running", "cancel_requested"}
    if open_ != ([job["attempt"]] if owned else []):
        yield f"I21: {job['status']}, and attempts {open_} have no end"
    if owned and [row["worker_token"] for row in current] != [job["worker_token"]]:
        yield "I21: the owner is not the one of the attempt"
    succeeded = [row["end_status"] for row in current] == ["succeeded"]
    if job["status"] == "succeeded" and not (succeeded and job["handler_started_at"] is not None):
        yield "I15: succeeded without an attempt that was started and returned"


def _attempts(job: Mapping[str, Any], attempts: Rows) -> Iterable[str]:
    numbers = [row["attempt"] for row in attempts]
    if numbers != sorted(set(numbers)) or (numbers and numbers[-1] > job["attempt"]):
        yield f"I16: attempts {numbers}, the job is at {job['attempt']}"


def _tokens(attempts: Rows) -> Iterable[str]:
    counts = Counter(row["worker_token"] for row in attempts)
    return [f"I16: {count} attempts with one token" for count in counts.values() if count > 1]


def _orphans(jobs: Mapping[int, Any], found: Mapping[str, Rows]) -> Iterable[str]:
    for name, rows in found.items():
        for row in rows:
            if name != "jobs" and row["job_id"] is not None and row["job_id"] not in jobs:
                yield f"I20: {name} {row['id']} belongs to job {row['job_id']}, which is gone"


def _ledger(job: Mapping[str, Any], attempts: Rows, path: Path) -> Iterable[str]:
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    starts = Counter(int(words[1]) for words in lines if words[0] == "start")
    ends = Counter(int(words[1]) for words in lines if words[0] == "end")
    marked = {row["attempt"] for row in attempts if row["handler_started_at"] is not None}
    for attempt, count in starts.items():
        if count > 1:
            yield f"I1: attempt {attempt} started {count} times"
        if attempt not in marked:
            yield f"I1: attempt {attempt} ran without a start marker"
    if job["status"] == "succeeded" and not ends[job["attempt"]]:
        yield "I15: succeeded, but the handler never came to its end"
