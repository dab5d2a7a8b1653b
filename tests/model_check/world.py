"""The world of the model: one job's row, and everybody who may write to it.

A state is a value; a step makes another one. Time is three facts that may become true at any
moment: the claim's deadline is over, the lease is over, the reservation is over.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Status = Literal[
    "absent",
    "queued",
    "running",
    "cancel_requested",
    "succeeded",
    "failed",
    "cancelled",
    "interrupted",
    "lost",
]
OWNED: tuple[Status, ...] = ("running", "cancel_requested")
TERMINAL: tuple[Status, ...] = ("succeeded", "failed", "cancelled", "interrupted", "lost")
NOBODY = -1
ATTEMPTS = 2


class Row(NamedTuple):
    """What the database holds."""

    status: Status = "absent"
    attempt: int = 1
    credential: int = 0
    """The serial of the credential whose hash is there; 0: none."""
    due: bool = False
    """The claim's deadline is over."""
    token: int = 0
    """The serial of the claim that owns it, or last owned it; 0: none."""
    lease: int = 0
    """Counts renewals: the value that is compared."""
    expired: bool = False
    """The lease is over."""
    marker: bool = False
    by: int = NOBODY
    """The supervisor that has reserved it."""
    over: bool = False
    """The reservation is over."""


class Caller(NamedTuple):
    """A request that starts an attempt: `jobs.start`, or a requeue."""

    phase: Literal["idle", "pending", "committed", "minted", "launched", "over"] = "idle"
    attempt: int = 1
    credential: int = 0
    said_failed: bool = False


class Child(NamedTuple):
    """The process of one launch."""

    attempt: int
    credential: int
    parent: int = NOBODY
    """Its supervisor; NOBODY: a shim of its own."""
    phase: Literal["booted", "claimed", "running", "returned", "gone"] = "booted"
    token: int = 0
    told: bool = False
    """Its end was reported by its parent."""


class Supervisor(NamedTuple):
    """Hands out what waits."""

    alive: bool = True
    credential: int = 0
    """Reserved, and no process is started for it yet."""
    attempt: int = 0


class Seen(NamedTuple):
    """What somebody read, who will write later. `child`: the dead process that it is about."""

    status: Status
    attempt: int
    token: int
    lease: int
    marker: bool
    child: int = NOBODY


def seen(row: Row, child: int = NOBODY) -> Seen:
    """What a reader takes away."""
    return Seen(row.status, row.attempt, row.token, row.lease, row.marker, child)


class World(NamedTuple):
    """Everything at one moment, and what has happened so far."""

    row: Row = Row()
    callers: tuple[Caller, ...] = ()
    children: tuple[Child, ...] = ()
    supervisors: tuple[Supervisor, ...] = ()
    sweeper: Seen | None = None
    settler: Seen | None = None
    reservations: int = 0
    ends: tuple[bool, ...] = (False,) * ATTEMPTS
    """Which attempts have ended."""
    claims: tuple[bool, ...] = (False,) * ATTEMPTS
    """Which attempts were ever claimed: the rows of `jobrun_attempts`."""
    starts: tuple[int, ...] = (0,) * ATTEMPTS
    """How often the handler began, by attempt: the ledger."""


class Step(NamedTuple):
    """One thing that may happen; `broken` names the promise that it breaks."""

    name: str
    world: World
    broken: str = ""


def put(values: tuple[bool, ...], attempt: int) -> tuple[bool, ...]:
    """The tuple with this attempt's fact true."""
    return (*values[: attempt - 1], True, *values[attempt:])


def with_child(world: World, index: int, **changes: object) -> World:
    """The world with one child changed."""
    child = world.children[index]._replace(**changes)  # type: ignore[arg-type]
    return world._replace(children=(*world.children[:index], child, *world.children[index + 1 :]))


def with_caller(world: World, index: int, **changes: object) -> World:
    """The world with one caller changed."""
    caller = world.callers[index]._replace(**changes)  # type: ignore[arg-type]
    return world._replace(callers=(*world.callers[:index], caller, *world.callers[index + 1 :]))


def with_supervisor(world: World, index: int, **changes: object) -> World:
    """The world with one supervisor changed."""
    one = world.supervisors[index]._replace(**changes)  # type: ignore[arg-type]
    return world._replace(
        supervisors=(*world.supervisors[:index], one, *world.supervisors[index + 1 :])
    )


def with_row(world: World, **changes: object) -> World:
    """The world with the row changed."""
    return world._replace(row=world.row._replace(**changes))  # type: ignore[arg-type]
