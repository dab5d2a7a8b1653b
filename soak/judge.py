"""The judge: each invariant of a job's life, held against what a soak left.

Every check yields what is wrong, with the job. `LOOSE` microseconds are allowed where two clocks
are compared: the database's, and that of the process that wrote the ledger.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from flask_jobrunner.model.statuses import ACTIVE, TERMINAL, may_move
from soak.app import SECRET
from soak.evidence import Evidence, Row, per_job

LOOSE = 1_000_000
LONGEST_LINE = 16384
ELSEWHERE = {
    "I1-I5, I8-I12": "in every order of steps: tests/model_check",
    "I13": "arguments, environments and answers: tests/acceptance/test_secrecy.py",
    "I21": "with I11 here, as far as a history shows it; at each step: tests/acceptance",
    "I22": "not here: a soak has one database; tests run on all three",
}


@dataclass(frozen=True)
class Violation:
    """One thing that must never happen, and did."""

    invariant: str
    job: str
    text: str


Found = Iterator[tuple[str, str]]
"""The job's uuid, and what is wrong with it."""


def handler_starts_once(seen: Evidence) -> Found:
    """I1: a handler starts at most once per attempt."""
    for (uuid, attempt), times in _starts(seen).items():
        if times > 1:
            yield uuid, f"its handler started {times} times in attempt {attempt}"


def accepted_is_there(seen: Evidence) -> Found:
    """I2: what was accepted has a row."""
    there = seen.by_uuid
    for call in seen.answers("start", "enqueue"):
        if call["answer"] == "ok" and call["uuid"] not in there:
            yield call["uuid"], f"{call['call']} answered {call['status']}, and there is no row"


def terminal_stays(seen: Evidence) -> Found:
    """I3: an attempt ends once; only a lost job may be closed after that."""
    for uuid, moves in _moves(seen):
        ends = defaultdict(list)
        for move in moves:
            if move["to_status"] in TERMINAL:
                ends[move["attempt"]].append(move["to_status"])
        for attempt, statuses in ends.items():
            if len(statuses) > 1 and statuses != ["lost", "cancelled"]:
                yield uuid, f"attempt {attempt} ended more than once: {statuses}"


def stale_owner_writes_nothing(seen: Evidence) -> Found:
    """I4: no line of an attempt stands behind those of a later one."""
    uuids = seen.uuids
    for job, lines in per_job(seen.logs).items():
        attempts = [line["attempt"] for line in sorted(lines, key=lambda line: line["seq"])]
        if attempts != sorted(attempts):
            yield uuids.get(job, str(job)), "an earlier attempt wrote behind a later one"


def refused_never_runs(seen: Evidence) -> Found:
    """I5: what failed before its claim never starts; told to a caller or written in a row."""
    starts = _starts(seen)
    for call in seen.answers("start"):
        if call["answer"] == "fail" and starts[call.get("uuid", "-"), 1]:
            yield call["uuid"], "its caller was told that it failed, and its handler started"
    for uuid, moves in _moves(seen):
        for move in moves:
            unclaimed = move["from_status"] == "queued" and move["to_status"] in TERMINAL
            if unclaimed and starts[uuid, move["attempt"]]:
                yield uuid, f"attempt {move['attempt']} ended unclaimed, and its handler started"


def lock_follows_status(seen: Evidence) -> Found:
    """I6: an active job with a key holds it, an ended one does not, and none is held twice."""
    held: dict[str, str] = {}
    for row in seen.jobs:
        key = row["active_lock_key"]
        if row["status"] != "lost" and (key is not None) != (
            row["status"] in ACTIVE and row["lock_key"] is not None
        ):
            yield row["job_uuid"], f"{row['status']}, its lock is {key}"
        if key is not None and held.setdefault(key, row["job_uuid"]) != row["job_uuid"]:
            yield row["job_uuid"], f"it holds the lock of {held[key]}"
    yield from _locks_overlap(seen)


def _locks_overlap(seen: Evidence) -> Found:
    keys = {row["job_uuid"]: row["lock_key"] for row in seen.jobs}
    spans = defaultdict(list)
    for uuid, moves in _moves(seen):
        begin = None
        for move in moves if keys[uuid] is not None else ():
            if move["to_status"] == "queued" and begin is None:
                begin = move["at"]
            elif move["to_status"] in TERMINAL - {"lost"} and begin is not None:
                spans[keys[uuid]].append((begin, move["at"], uuid))
                begin = None
    for held in spans.values():
        held.sort()
        for before, after in pairwise(held):
            if after[0] + LOOSE < before[1]:
                yield after[2], f"it was active while {before[2]} held the same lock key"


def lines_without_gap(seen: Evidence) -> Found:
    """I7: lines are 1 to n, n is the row's, and a reader saw each once."""
    logs = per_job(seen.logs)
    for row in seen.jobs:
        numbers = [line["seq"] for line in logs.get(row["id"], ())]
        if numbers != list(range(1, row["log_seq"] + 1)):
            yield row["job_uuid"], f"{len(numbers)} lines, the row says {row['log_seq']}"
    for call in seen.history:
        if call["call"] == "lines":
            numbers, after = call["numbers"], call["after"]
            if numbers != list(range(after + 1, after + 1 + len(numbers))):
                yield call["uuid"], f"a reader that knew line {after} was given {numbers[:9]}"


def nothing_starts_ended(seen: Evidence) -> Found:
    """I8: the marker is written before the handler starts, and the attempt has not ended then."""
    attempts = _attempts(seen)
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
    attempts = _attempts(seen)
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


def history_is_whole(seen: Evidence) -> Found:
    """I11, I21: each move begins where the one before it ended, for the attempt of that time."""
    there = seen.by_uuid
    for uuid, moves in _moves(seen):
        status, attempt = None, 1
        for move in moves:
            before, after = move["from_status"], move["to_status"]
            if before != status or not may_move_from(before, after):
                yield uuid, f"{before} to {after} ({move['action']}) when it was {status}"
            rises = after == "queued" and move["action"] in {"requeue", "restart"}
            if move["attempt"] != attempt + rises:
                yield uuid, f"{move['action']} of attempt {move['attempt']} in attempt {attempt}"
            # A verdict names the attempt that ended; the job waits as the next one.
            attempt += after == "queued" and before is not None
            status = after
        if (status, attempt) != (there[uuid]["status"], there[uuid]["attempt"]):
            row = there[uuid]
            yield uuid, f"{row['status']} in {row['attempt']}; its history: {status} in {attempt}"


def may_move_from(before: str | None, after: str) -> bool:
    """Whether the table of moves has it."""
    return after == "queued" if before is None else may_move(before, after)


def nothing_stays_active(seen: Evidence) -> Found:
    """I12: after the quiet time everything has ended."""
    for row in seen.jobs:
        if row["status"] in ACTIVE:
            yield row["job_uuid"], f"it is still {row['status']} (attempt {row['attempt']})"


def secrets_stay_secret(seen: Evidence) -> Found:
    """I13: a used credential is gone, and a password is in no line and no output."""
    for row in seen.jobs:
        if row["worker_token_hash"] is not None and row["status"] != "queued":
            yield row["job_uuid"], "its credential is still there"
        if SECRET in f"{row['error_message']}":
            yield row["job_uuid"], "its error tells a password"
    for name, text in seen.texts.items():
        if SECRET in text:
            yield "-", f"a password stands in {name}"
    yield from _told_in_rows(seen)


def _told_in_rows(seen: Evidence) -> Found:
    uuids = seen.uuids
    for name in ("logs", "events", "attempts"):
        for row in getattr(seen, name):
            if any(SECRET in value for value in row.values() if isinstance(value, str)):
                yield uuids.get(row["job_id"], "?"), f"a password stands in its {name}"


def bystanders_live(seen: Evidence) -> Found:
    """I14: nobody else's process was signalled."""
    for pid in seen.bystanders_gone:
        yield "-", f"process {pid}, which is no job's, was ended"


def success_means_returned(seen: Evidence) -> Found:
    """I15: what succeeded had reached its last line."""
    returned = {(note["uuid"], note["attempt"]) for note in seen.noted("end")}
    for (uuid, attempt), row in _attempts(seen).items():
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


def versions_count(seen: Evidence) -> Found:
    """I17: every move has raised the row's version."""
    there = seen.by_uuid
    for uuid, moves in _moves(seen):
        if there[uuid]["row_version"] < len(moves) - 1:
            yield uuid, f"{len(moves)} moves, but version {there[uuid]['row_version']}"


def cancel_is_kept(seen: Evidence) -> Found:
    """I18: cancelled only when asked; and what was asked is in the history."""
    asked: Counter[str] = Counter()
    for uuid, events in _events(seen):
        requests = [e for e in events if e["action"] in {"cancel", "force_stop", "close"}]
        asked[uuid] = len(requests)
        for event in events:
            if event["to_status"] == "cancelled" and not any(
                one["attempt"] == event["attempt"] and one["id"] <= event["id"] for one in requests
            ):
                yield uuid, f"attempt {event['attempt']} was cancelled and nobody had asked"
    told = Counter(
        call["uuid"]
        for call in seen.answers("cancel")
        if call.get("status") in {"cancelled", "cancel_requested"}
    )
    for uuid, times in told.items():
        if asked[uuid] < times:
            yield uuid, f"{times} cancels were accepted, {asked[uuid]} are recorded"


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


def no_orphans(seen: Evidence) -> Found:
    """I20: every row of an attempt, line, event and file has its job."""
    there = seen.uuids
    for name in ("attempts", "logs", "events", "files"):
        for job in {row["job_id"] for row in getattr(seen, name)} - {None, *there}:
            yield str(job), f"its {name} were left behind"


def everything_is_bounded(seen: Evidence) -> Found:
    """I23: no line is longer than a chunk."""
    uuids = seen.uuids
    for line in seen.logs:
        if len(line["message"].encode()) > LONGEST_LINE:
            yield uuids.get(line["job_id"], "?"), f"line {line['seq']} is too long"


def changes_say_who(seen: Evidence) -> Found:
    """I24: what a person did has a name and a time."""
    for uuid, events in _events(seen):
        for event in events:
            named = event["action"] in {"start", "enqueue", "requeue"}
            if event["at"] is None or (named and event["actor"] is None):
                yield uuid, f"nobody knows who did: {event['action']}"


def end_is_the_last_write(seen: Evidence) -> Found:
    """I25: no owner's event after its end, and no beat."""
    for uuid, events in _events(seen):
        over: set[int] = set()
        for event in events:
            if event["attempt"] in over and event["action"] in {"claim", "stop", "finish"}:
                yield uuid, f"{event['action']} of attempt {event['attempt']} after its end"
            if event["to_status"] in TERMINAL:
                over.add(event["attempt"])
    for row in seen.jobs:
        beat, end = row["heartbeat_at"], row["finished_at"]
        if beat is not None and end is not None and beat > end + LOOSE:
            yield row["job_uuid"], "it was renewed after its end"


CHECKS: dict[str, Callable[[Evidence], Found]] = {
    "I1": handler_starts_once,
    "I2": accepted_is_there,
    "I3": terminal_stays,
    "I4": stale_owner_writes_nothing,
    "I5": refused_never_runs,
    "I6": lock_follows_status,
    "I7": lines_without_gap,
    "I8": nothing_starts_ended,
    "I9": process_owns_its_attempt,
    "I10": living_owner_is_left_alone,
    "I11": history_is_whole,
    "I12": nothing_stays_active,
    "I13": secrets_stay_secret,
    "I14": bystanders_live,
    "I15": success_means_returned,
    "I16": attempts_grow,
    "I17": versions_count,
    "I18": cancel_is_kept,
    "I19": slots_are_kept,
    "I20": no_orphans,
    "I23": everything_is_bounded,
    "I24": changes_say_who,
    "I25": end_is_the_last_write,
}


def judge(seen: Evidence) -> list[Violation]:
    """Everything that is wrong."""
    return [
        Violation(name, uuid, text) for name, check in CHECKS.items() for uuid, text in check(seen)
    ]


def judge_pruned(before: Evidence, after: Evidence) -> list[Violation]:
    """I20: retention took only what had ended and was not lost, and nothing of it is left."""
    kept = after.by_uuid
    taken = [row for row in before.jobs if row["job_uuid"] not in kept]
    wrong = [row for row in taken if row["status"] in {*ACTIVE, "lost"}]
    found = [Violation("I20", row["job_uuid"], f"removed while {row['status']}") for row in wrong]
    return found + [Violation("I20", uuid, text) for uuid, text in no_orphans(after)]


def _starts(seen: Evidence) -> Counter[tuple[str, int]]:
    return Counter((note["uuid"], note["attempt"]) for note in seen.noted("start"))


def _attempts(seen: Evidence) -> dict[tuple[str, int], Row]:
    uuids = seen.uuids
    return {(uuids.get(row["job_id"], "?"), row["attempt"]): row for row in seen.attempts}


def _events(seen: Evidence) -> Iterator[tuple[str, list[Row]]]:
    uuids = seen.uuids
    for job, events in per_job(seen.events).items():
        if job in uuids:
            yield uuids[job], events


def _moves(seen: Evidence) -> Iterator[tuple[str, list[Row]]]:
    """The events that changed a status."""
    for uuid, events in _events(seen):
        yield uuid, [event for event in events if event["to_status"] != event["from_status"]]
