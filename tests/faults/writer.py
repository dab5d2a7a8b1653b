"""A process that writes all that jobs write, for ever: `writer.py URL LEDGER`.

Each job is in the ledger once it was accepted, and again once its end was stored.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from flask_jobrunner.model.records import Outcome
from tests.helpers.stores import claim, lines, open_store, queue


def write(url: str, ledger: Path) -> None:
    """One job after the other, most of them from the row to the end."""
    store = open_store(url)
    with ledger.open("a", encoding="utf-8") as told:
        for number in itertools.count():
            job = queue(store, lock_key=f"key {os.getpid()} {number}")
            print("accepted", job.uuid, file=told, flush=True)
            won = claim(store, job)
            store.ownership.mark_started(won.fence, None)
            printed = lines(*(f"line {n}" for n in range(20)))
            store.ownership.beat(won.fence, lines=printed, last_seq=0)
            if number % 3:
                store.endings.finish(won.fence, Outcome(status="succeeded"), last_seq=20)
                print("ended", job.uuid, file=told, flush=True)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
