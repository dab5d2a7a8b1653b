"""How far a search goes, which guards are in place, and what an end does to the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.model_check.world import NOBODY, Caller, Row, Status, Supervisor, World, put, with_row

NO_CREDENTIAL = "a row that is not waiting has no credential"
RESERVED = "a reservation is its holder's until its time is over"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How far the search goes: who takes part, and how much may go wrong."""

    mode: Literal["push", "session", "pull"]
    children: int = 2
    reservations: int = 3

    def first(self) -> World:
        """Before anything has happened."""
        if self.mode == "pull":
            return World(row=Row(status="queued"), supervisors=(Supervisor(), Supervisor()))
        return World(callers=(Caller(), Caller(attempt=2)))


@dataclass(frozen=True)
class Ground:
    """What all rules stand on."""

    scope: Scope
    guards: frozenset[str]

    def _ended(self, world: World, status: Status) -> tuple[World, str]:
        """The world with the row ended, and the promise that this breaks."""
        row = world.row
        cleared = "ends and claims clear the credential" in self.guards
        after = with_row(
            world,
            status=status,
            due=False,
            credential=0 if cleared else row.credential,
            by=NOBODY,
            over=False,
            lease=0,
            expired=False,
            marker=False,
        )
        broken = "I3" if world.ends[row.attempt - 1] else ""
        return after._replace(ends=put(world.ends, row.attempt)), broken
