"""What becomes of 100 short jobs while the workers are killed and started again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.peers import rows
from benchmarks.peers.contestants import (
    CELERY,
    CELERY_LATE,
    HUEY,
    PROCRASTINATE,
    RQ_DEFAULT,
    Contestant,
    ours,
)
from benchmarks.peers.field import PATIENCE, Field, fielded
from benchmarks.peers.services import Services
from tests.helpers.waiting import eventually

PEERS = (RQ_DEFAULT, CELERY, CELERY_LATE, HUEY, PROCRASTINATE)
JOBS = 100
PAUSE = 0.1
SLOTS = 2
KILLED_AFTER = (0.15, 0.35, 0.55, 0.75)
"""The share of the jobs that have begun when all workers are killed."""
QUIET = 20.0
"""Seconds without a mark after which nothing more is expected."""


def run(names: Sequence[str], jobs: int = JOBS, peers: Sequence[Contestant] = PEERS) -> int:
    """One contestant after the other; ours missing what became of a job is a missed target."""
    print(
        f"{jobs} jobs of {PAUSE} s, {SLOTS} at once; all workers killed with -9 "
        f"{len(KILLED_AFTER)} times and started again at once"
    )
    print(
        f"{'contestant':<22} {'queue':<11} {'done':>5} {'told that it ended':>19} "
        f"{'said to run':>12} {'said to wait':>13} {'nothing known':>14} {'run twice':>10}"
    )
    missed = 0
    for one in (*(ours(name) for name in names), *peers):
        with ExitStack() as stack:
            made = stack.enter_context(fielded(Services(stack), one, pause=PAUSE))
            if made is None:
                rows.not_installed(one)
                continue
            found = _fates(made, jobs)
            print(
                f"{one.name:<22} {one.service:<11} {found['done']:>5} {found['told']:>19} "
                f"{found['running']:>12} {found['waiting']:>13} {found['unknown']:>14} "
                f"{found['twice']:>10}",
                flush=True,
            )
            if one.is_ours:
                missed += found["done"] + found["told"] != jobs or found["twice"] > 0
    return missed


def _fates(made: Field, jobs: int) -> Counter[str]:
    references = [made.enqueue(number)["reference"] for number in range(jobs)]
    made.work(SLOTS)
    for share in KILLED_AFTER:
        eventually(
            lambda share=share: _numbers(made, "began") >= jobs * share,  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            timeout=PATIENCE,
            message=made.last_words,
        )
        made.kill()
        made.work(SLOTS)
    _wait(made, jobs)
    marks = made.marks()
    done = {one.number for one in marks if one.event == "ended"}
    begun = Counter(one.number for one in marks if one.event == "began")
    found: Counter[str] = Counter(done=len(done), twice=sum(each > 1 for each in begun.values()))
    for number in set(range(jobs)) - done:
        said = made.state(references[number])
        found[said if said in {"running", "waiting", "unknown"} else "told"] += 1
    return found


def _numbers(made: Field, event: str) -> int:
    return len({one.number for one in made.marks() if one.event == event})


def _wait(made: Field, jobs: int) -> None:
    """Until all have ended, or nothing has happened for long."""
    seen, since = 0, time.monotonic()
    while _numbers(made, "ended") < jobs and time.monotonic() - since < QUIET:
        marks = len(made.marks())
        if marks != seen:
            seen, since = marks, time.monotonic()
        time.sleep(0.1)
