"""Whoever makes trouble: kills, stops, deploys, and takes the database away, at random times."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from soak.app import LEASE
from soak.crew import Crew
from soak.place import Place

# What is done to whom, and how often beside the others.
BLOWS = {
    ("kill", "job"): 6,
    ("kill", "shim"): 3,
    ("kill", "supervisor"): 2,
    ("kill", "submitter"): 2,
    ("stop", "job"): 3,
    ("stop", "supervisor"): 2,
    ("deploy", "supervisor"): 2,
}


@dataclass
class Nemesis:
    """Strikes when it is asked and its time has come; `done` counts what it did."""

    crew: Crew
    place: Place
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    stopped: list[tuple[float, int]] = field(default_factory=list)
    next: float = field(default_factory=lambda: time.monotonic() + 3)

    def act(self) -> None:
        """Let those go on whose pause is over; strike, if it is time."""
        now = time.monotonic()
        for until, pid in list(self.stopped):
            if until <= now:
                self._go_on(until, pid)
        if now >= self.next:
            self.next = now + self.chance.uniform(0.5, 5)
            self._strike()

    def relent(self) -> None:
        """Let all go on."""
        for until, pid in list(self.stopped):
            self._go_on(until, pid)

    def _go_on(self, until: float, pid: int) -> None:
        self.stopped.remove((until, pid))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _strike(self) -> None:
        blows = [*BLOWS, *(("database", name) for name in self.place.troubles)]
        weights = [*BLOWS.values(), *(2 for _ in self.place.troubles)]
        what, whom = self.chance.choices(blows, weights)[0]
        if what == "database":
            self.place.troubles[whom](self.chance)
            self.done[f"database: {whom}"] += 1
            return
        victims = self.crew.seen().get(whom)
        if not victims:
            return
        victim = self.chance.choice(victims).pid
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "deploy": signal.SIGTERM}[what]
        with suppress(ProcessLookupError):
            os.kill(victim, number)
            self.done[f"{what} {whom}"] += 1
        if what == "stop":
            seconds = LEASE * self.chance.uniform(0.5, 2.5)
            self.stopped.append((time.monotonic() + seconds, victim))
