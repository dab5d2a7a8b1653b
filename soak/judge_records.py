"""Checks of what is recorded: rows, their history, lines, and the answers to calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from flask_jobrunner.model.statuses import ACTIVE, TERMINAL, may_move
from soak.app import SECRET
from soak.evidence import Evidence, per_job
from soak.views import LOOSE, Found, events_of, moves_of

LONGEST_LINE = 16384


def accepted_is_there(seen: Evidence) -> Found:
    """I2: what was accepted has a row."""
    there = seen.by_uuid
    for call in seen.answers("start", "enqueue"):
        if call["answer"] == "ok" and call["uuid"] not in there:
            yield call["uuid"], f"{call['call']} answered {call['status']}, and there is no row"


def terminal_stays(seen: Evidence) -> Found:
    """I3: an attempt ends once; only a lost job may be closed after that."""
    for uuid, moves in moves_of(seen):
        ends = defaultdict(list)
        for move in moves:
            if move["to_status"] in TERMINAL:
                ends[move["attempt"]].append(move["to_status"])
        for attempt, statuses in ends.items():
            if len(statuses) > 1 and statuses != ["lost", "cancelled"]:
                yield uuid, f"attempt {attempt} ended more than once: {statuses}"


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
    for uuid, moves in moves_of(seen):
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


def history_is_whole(seen: Evidence) -> Found:
    """I11, I21: each move begins where the one before it ended, for the attempt of that time."""
    there = seen.by_uuid
    for uuid, moves in moves_of(seen):
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


def versions_count(seen: Evidence) -> Found:
    """I17: every move has raised the row's version."""
    there = seen.by_uuid
    for uuid, moves in moves_of(seen):
        if there[uuid]["row_version"] < len(moves) - 1:
            yield uuid, f"{len(moves)} moves, but version {there[uuid]['row_version']}"


def cancel_is_kept(seen: Evidence) -> Found:
    """I18: cancelled only when asked; and what was asked is in the history."""
    asked: Counter[str] = Counter()
    for uuid, events in events_of(seen):
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
    for uuid, events in events_of(seen):
        for event in events:
            named = event["action"] in {"start", "enqueue", "requeue"}
            if event["at"] is None or (named and event["actor"] is None):
                yield uuid, f"nobody knows who did: {event['action']}"


def end_is_the_last_write(seen: Evidence) -> Found:
    """I25: no owner's event after its end, and no beat."""
    for uuid, events in events_of(seen):
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
