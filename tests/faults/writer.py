"""A process that writes all that jobs write, for ever: `writer.py URL LEDGER`.

Each job is in the ledger once it was accepted, and again once its end was stored.
"""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from flask_jobrunner.model.errors import LockBusy
from flask_jobrunner.model.records import Outcome
from tests.helpers.stores import Store, claim, lines, open_store, queue


def write(url: str, ledger: Path) -> None:
    """One job after the other, most of them from the row to the end."""
    store = open_store(url)
    with ledger.open("a", encoding="utf-8") as told:
        for number in itertools.count():
            # SQLite's lock is not fair: whoever starves said nothing, and goes on with the next.
            with suppress(LockBusy):
                write_one(store, number, told)


def write_one(store: Store, number: int, told: TextIO) -> None:
    """One job; two of three are brought to their end."""
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
