"""How soon a tool says that a job does not run any more, after its process was killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.peers import rows
from benchmarks.peers.contestants import (
    CELERY,
    CELERY_LATE,
    PROCRASTINATE,
    RQ_DEFAULT,
    Contestant,
    ours,
)
from benchmarks.peers.field import Field, fielded
from benchmarks.peers.services import Services
from benchmarks.timing import spread

PEERS = (RQ_DEFAULT, CELERY, CELERY_LATE, PROCRASTINATE)
LIMIT = 60.0
LONG = 3600.0
"""Seconds that the job would take."""
RUNS = frozenset({"running", "unknown", "waiting", "started"})


def run(names: Sequence[str], rounds: int, peers: Sequence[Contestant] = PEERS) -> int:
    """The job's process alone; then all of the workers, which are started again at once."""
    print(f"{'killed with -9':<34} {'contestant':<22} {'queue':<11} {'until it says so':>24}")
    for whole in (False, True):
        for one in (*(ours(name) for name in names), *peers):
            with ExitStack() as stack:
                made = stack.enter_context(fielded(Services(stack), one, pause=LONG))
                if made is None:
                    rows.not_installed(one)
                    continue
                print(_row(made, rounds, whole=whole), flush=True)
    return 0


def _row(made: Field, rounds: int, *, whole: bool) -> str:
    taken, one = [], made.contestant
    for number in range(rounds):
        seconds = _seconds(made, number, whole=whole)
        if seconds is None:
            break
        taken.append(seconds)
    what = "all workers, and started again" if whole else "the process of the job"
    if len(taken) == rounds:
        said = f"{spread(taken, digits=2)} s"
    else:
        said = f"> {LIMIT:g} s" + (f" ({one.notices})" if whole else "")
    return f"{what:<34} {one.name:<22} {one.service:<11} {said:>24}"


def _seconds(made: Field, number: int, *, whole: bool) -> float | None:
    """One death. None: not within the limit."""
    if not made.workers:
        made.work(1)
        made.settle()
    reference = made.enqueue(number)["reference"]
    process = made.mark(number, "began").pid
    killed = time.monotonic()
    if whole:
        made.kill()
        made.work(1)
    else:
        os.kill(process, signal.SIGKILL)
    while made.state(reference) in RUNS:
        if time.monotonic() - killed > LIMIT:
            return None
        time.sleep(0.01)
    return time.monotonic() - killed
