"""How many jobs a second are worked off that do nothing, with as many slots as there are cores."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.peers import rows
from benchmarks.peers.contestants import (
    CELERY,
    CELERY_ONE,
    HUEY,
    PROCRASTINATE,
    RQ_DEFAULT,
    RQ_PRELOADED,
    RQ_SPAWN,
    Contestant,
    ours,
)
from benchmarks.peers.field import PYTHON, Field, fielded
from benchmarks.peers.rows import Target
from benchmarks.peers.services import ROOT, Services

JOBS = 40
QUICK_JOBS = 400
"""For those that re-use a process, whose jobs take a millisecond or a few."""
QUICK = frozenset(one.name for one in (RQ_PRELOADED, CELERY, CELERY_ONE, HUEY, PROCRASTINATE))
PEERS = (RQ_SPAWN, RQ_DEFAULT, RQ_PRELOADED, CELERY, CELERY_ONE, HUEY, PROCRASTINATE)
CORES = os.cpu_count() or 1
TARGETS = {
    RQ_SPAWN.name: Target(times=2.0, more_is_better=True),
    "bare boots": Target(times=0.9, more_is_better=True),
}


def run(
    names: Sequence[str], rounds: int, peers: Sequence[Contestant] = PEERS, jobs: int = JOBS
) -> int:
    """One contestant after the other, in turns; how many targets were missed."""
    wanted = [*(ours(name) for name in names), *peers]
    found: dict[Contestant, list[float]] = {}
    bare = Contestant(name="bare boots", tool="flask", service="-", worker=())
    for number in range(rounds):
        for one in wanted:
            with ExitStack() as stack:
                made = stack.enter_context(fielded(Services(stack), one))
                if made is not None:
                    many = QUICK_JOBS if one.name in QUICK else jobs
                    found.setdefault(one, []).append(_per_second(made, many))
                    found.setdefault(bare, []).append(CORES / _bare_boot(made))
                elif not number:
                    rows.not_installed(one)
    print(rows.HEADER)
    return rows.report(rows.rows(f"no-op jobs, {CORES} slots", "jobs/s", found, TARGETS))


def _per_second(made: Field, jobs: int) -> float:
    """All jobs wait when the workers start; from the first handler to the end of the last."""
    for number in range(jobs):
        made.enqueue(number)
    made.work(CORES)
    for number in range(jobs):
        made.mark(number, "ended")
    marks = made.marks()
    assert len(marks) == 2 * jobs, made.last_words()
    return jobs * 1e9 / (max(one.at for one in marks) - min(one.at for one in marks))


def _bare_boot(made: Field) -> float:
    """Seconds of CPU that one `flask` command of the same application needs."""
    made.kill()
    command = [
        PYTHON,
        "-m",
        "flask",
        "--app",
        "benchmarks.peers.application",
        "noop-with-one-query",
    ]
    process = subprocess.Popen(command, env=made.environ, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime
