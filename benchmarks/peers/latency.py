"""How soon a job begins that is put into the queue of a worker that is idle."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.peers import rows
from benchmarks.peers.contestants import (
    CELERY,
    PEERS,
    RQ_PRELOADED,
    Contestant,
    ours,
)
from benchmarks.peers.field import Field, fielded
from benchmarks.peers.rows import Target
from benchmarks.peers.services import Services

TARGETS = {RQ_PRELOADED.name: Target(times=0.5), CELERY.name: Target(times=1.0)}
WARM_UP = 2


def run(names: Sequence[str], rounds: int, peers: Sequence[Contestant] = PEERS) -> int:
    """All contestants in turns, in each round one job each; how many targets were missed."""
    wanted = [ours(name, standby) for standby in (1, 0) for name in names]
    returned: dict[Contestant, list[float]] = {}
    called: dict[Contestant, list[float]] = {}
    with ExitStack() as stack:
        services = Services(stack)
        fields = []
        for one in (*wanted, *peers):
            made = stack.enter_context(fielded(services, one))
            if made is None:
                rows.not_installed(one)
                continue
            made.work(1)
            fields.append(made)
        for number in range(WARM_UP + rounds):
            for made in fields:
                since_called, since_returned = _taken(made, number)
                if number >= WARM_UP:
                    called.setdefault(made.contestant, []).append(since_called)
                    returned.setdefault(made.contestant, []).append(since_returned)
    print(rows.HEADER)
    missed = rows.report(rows.rows("enqueued to handler", "ms", returned, TARGETS))
    rows.report(rows.rows("enqueue called to handler", "ms", called, {}))
    return missed


def _taken(made: Field, number: int) -> tuple[float, float]:
    """Milliseconds from the call of enqueue, and from its return, to the handler's first line."""
    made.settle()
    enqueued = made.enqueue(number)
    began = made.mark(number, "began").at
    made.mark(number, "ended")
    return (began - enqueued["called"]) / 1e6, (began - enqueued["returned"]) / 1e6
