"""What may happen next, and which promise it breaks. Each rule is one write of the real system.

A process may stop between any two of its steps and go on later: that is what interleaving is. The
numbers of the promises are those of `docs/reliability.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.model_check.world import (
    ATTEMPTS,
    NOBODY,
    OWNED,
    TERMINAL,
    Caller,
    Child,
    Row,
    Seen,
    Status,
    Step,
    Supervisor,
    World,
    put,
    seen,
    with_caller,
    with_child,
    with_row,
    with_supervisor,
)

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
class Rules:
    """The steps from a world, with some guards in place."""

    scope: Scope
    guards: frozenset[str]

    def steps(self, world: World) -> Iterator[Step]:
        """Everything that may happen next."""
        yield from self._callers(world)
        yield from self._requeue(world)
        yield from self._supervisors(world)
        yield from self._children(world)
        yield from self._cancel(world)
        yield from self._sweeper(world)
        yield from self._settler(world)
        yield from self._time(world)

    # The caller: `caller/start.py`, `caller/handover.py`.

    def _callers(self, world: World) -> Iterator[Step]:
        for index, caller in enumerate(world.callers):
            if caller.phase == "idle" and index == 0:
                yield from self._insert(world)
            if caller.phase == "pending":
                row = Row(status="queued")
                after = with_caller(world, 0, phase="committed")
                yield Step("the host commits", after._replace(row=row))
                yield Step("the host rolls back", with_caller(world, 0, phase="over"))
            if caller.phase == "committed":
                yield self._mint(world, index)
            if caller.phase in ("minted", "launched") and self._may_launch(world, caller):
                child = Child(caller.attempt, caller.credential)
                after = with_caller(world, index, phase="launched")
                yield Step("launch", after._replace(children=(*world.children, child)))
            if caller.phase == "launched":
                yield from self._reconcile(world, index)
            if caller.phase not in ("idle", "over"):
                yield Step("the caller dies", with_caller(world, index, phase="over"))

    def _insert(self, world: World) -> Iterator[Step]:
        if self.scope.mode == "session":
            yield Step("insert in the host's transaction", with_caller(world, 0, phase="pending"))
            return
        after = with_caller(world, 0, phase="minted", credential=1)
        yield Step("insert", after._replace(row=Row(status="queued", credential=1)))

    def _mint(self, world: World, index: int) -> Step:
        row, caller = world.row, world.callers[index]
        fits = row.status == "queued" and row.attempt == caller.attempt
        if "minting checks the row" in self.guards and not (
            fits and row.credential == 0 and not row.due
        ):
            return Step("minting is refused", with_caller(world, index, phase="over"))
        after = with_caller(world, index, phase="minted", credential=1)
        return Step(
            "mint",
            with_row(after, credential=1),
            "" if fits else NO_CREDENTIAL,
        )

    def _may_launch(self, world: World, caller: Caller) -> bool:
        if len(world.children) >= self.scope.children:
            return False
        # Twice at most: a launch that is repeated by mistake must do no harm.
        return sum(one.credential == caller.credential for one in world.children) < 2

    def _reconcile(self, world: World, index: int) -> Iterator[Step]:
        caller, row = world.callers[index], world.row
        claimed = world.claims[caller.attempt - 1]
        if claimed:
            yield self._answer(world, index, "started")
        if "reconcile reads the row" not in self.guards:
            yield self._answer(world, index, "failed")
            return
        if self._may_mark_failed(row, caller):
            strange = "I11" if row.attempt != caller.attempt else ""
            after, broken = self._ended(world, "failed")
            step = self._answer(after, index, "failed")
            yield step._replace(name="mark failed", broken=strange or broken or step.broken)
            return
        if "reconcile asks for its own attempt" not in self.guards:
            claimed = row.status in OWNED or row.status == "succeeded"
        yield self._answer(world, index, "started" if claimed else "failed")

    def _may_mark_failed(self, row: Row, caller: Caller) -> bool:
        if "mark-failed checks the attempt" in self.guards and row.attempt != caller.attempt:
            return False
        if "mark-failed checks the status" in self.guards:
            return row.status == "queued"
        return row.status not in OWNED

    def _answer(self, world: World, index: int, answer: Literal["started", "failed"]) -> Step:
        failed = answer == "failed"
        after = with_caller(world, index, phase="over", said_failed=failed)
        started = world.starts[world.callers[index].attempt - 1]
        return Step(f"answer {answer}", after, "I5" if failed and started else "")

    # A requeue: `caller/requeue.py`.

    def _requeue(self, world: World) -> Iterator[Step]:
        row = world.row
        if row.status not in TERMINAL or row.status == "succeeded" or row.attempt >= ATTEMPTS:
            return
        fresh = Row(status="queued", attempt=row.attempt + 1)
        if self.scope.mode == "pull":
            yield Step("requeue", world._replace(row=fresh))
            return
        credential = 2 if "a credential is for one attempt" in self.guards else 1
        after = with_caller(world, 1, phase="minted", credential=credential)
        yield Step("requeue", after._replace(row=fresh._replace(credential=credential)))

    # The supervisor: `supervisor/dispatch.py`, `supervisor/record.py`.

    def _supervisors(self, world: World) -> Iterator[Step]:
        for index, one in enumerate(world.supervisors):
            if not one.alive:
                continue
            if not one.credential:
                yield from self._reserve(world, index)
            else:
                yield from self._start_or_give_back(world, index)
            others = any(s.alive for at, s in enumerate(world.supervisors) if at != index)
            if others:
                yield Step("a supervisor dies", with_supervisor(world, index, alive=False))
        yield from self._give_back_of_the_dead(world)

    def _reserve(self, world: World, index: int) -> Iterator[Step]:
        row = world.row
        if row.status != "queued" or world.reservations >= self.scope.reservations:
            return
        free = row.by == NOBODY or row.over
        if "reserving respects a reservation" in self.guards and not free:
            return
        serial = world.reservations + 1
        after = with_supervisor(world, index, credential=serial, attempt=row.attempt)
        after = with_row(after, credential=serial, by=index, over=False)
        broken = "" if free else RESERVED
        yield Step("reserve", after._replace(reservations=serial), broken)

    def _start_or_give_back(self, world: World, index: int) -> Iterator[Step]:
        one = world.supervisors[index]
        free = with_supervisor(world, index, credential=0, attempt=0)
        if len(world.children) < self.scope.children:
            child = Child(one.attempt, one.credential, index)
            yield Step("start a child", free._replace(children=(*world.children, child)))
        else:
            yield self._give_back(free, index, one.attempt, one.credential)

    def _give_back_of_the_dead(self, world: World) -> Iterator[Step]:
        for at, child in enumerate(world.children):
            if child.parent == NOBODY or child.told or child.token:
                continue
            if child.phase == "gone" and world.supervisors[child.parent].alive:
                after = with_child(world, at, told=True)
                yield self._give_back(after, child.parent, child.attempt, child.credential)

    def _give_back(self, world: World, index: int, attempt: int, credential: int) -> Step:
        row = world.row
        mine = row.credential == credential
        named = mine or "giving back names the credential" not in self.guards
        if row.status != "queued" or row.attempt != attempt or not named:
            return Step("nothing to give back", world)
        theirs = row.by not in (index, NOBODY) and not row.over
        broken = RESERVED if theirs else ""
        return Step("give back", with_row(world, credential=0, by=NOBODY, over=False), broken)

    # The child: `child/claim.py`, `child/run.py`, `child/lease.py`.

    def _children(self, world: World) -> Iterator[Step]:
        for index, child in enumerate(world.children):
            if child.phase == "booted":
                yield self._claim(world, index)
            if child.phase == "claimed":
                yield self._mark(world, index)
            if child.phase == "running":
                yield Step("the handler returns", with_child(world, index, phase="returned"))
            if child.phase == "returned":
                yield self._finish(world, index)
            if child.phase in ("claimed", "running", "returned"):
                yield from self._renew(world, index)
            if child.phase != "gone":
                yield Step("a child dies", with_child(world, index, phase="gone"))

    def _claim(self, world: World, index: int) -> Step:
        child, row = world.children[index], world.row
        if not self._may_claim(row, child):
            return Step("the claim is refused", with_child(world, index, phase="gone"))
        own = "each claim has a token of its own" in self.guards
        token = index + 1 if own else 1
        cleared = "ends and claims clear the credential" in self.guards
        after = with_row(
            with_child(world, index, phase="claimed", token=token),
            status="running",
            token=token,
            credential=0 if cleared else row.credential,
            due=False,
            expired=False,
            by=NOBODY,
            over=False,
        )
        claims = put(world.claims, row.attempt)
        broken = "I9" if child.attempt != row.attempt else ""
        if row.status in OWNED:
            broken = broken or "I4"
        if world.ends[row.attempt - 1]:
            broken = broken or "I3"
        return Step("claim", after._replace(claims=claims), broken)

    def _may_claim(self, row: Row, child: Child) -> bool:
        if "claim checks the status" in self.guards and row.status != "queued":
            return False
        if "a credential is for one attempt" in self.guards and row.attempt != child.attempt:
            return False
        if "claim checks the deadline" in self.guards and row.due:
            return False
        return row.credential == child.credential != 0

    def _owns(self, row: Row, child: Child) -> bool:
        return row.status in OWNED and row.token == child.token

    def _mark(self, world: World, index: int) -> Step:
        child, row = world.children[index], world.row
        guarded = "start marker is a compare-and-set" in self.guards
        if guarded and not (self._owns(row, child) and not row.marker):
            return Step("the start is refused", with_child(world, index, phase="gone"))
        at = child.attempt - 1
        starts = (*world.starts[:at], world.starts[at] + 1, *world.starts[at + 1 :])
        after = with_child(world, index, phase="running")
        if self._owns(row, child):
            after = with_row(after, marker=True)
        failed = any(c.said_failed and c.attempt == child.attempt for c in world.callers)
        broken = "I5" if failed else "I1" if starts[at] > 1 else ""
        if world.ends[at]:
            broken = broken or "I8"
        return Step("the handler starts", after._replace(starts=starts), broken)

    def _renew(self, world: World, index: int) -> Iterator[Step]:
        row = world.row
        if self._owns(row, world.children[index]) and row.lease < 1:
            yield Step("renew", with_row(world, lease=row.lease + 1, expired=False))

    def _finish(self, world: World, index: int) -> Step:
        child, row = world.children[index], world.row
        left = with_child(world, index, phase="gone")
        by_token = "finish checks the token" in self.guards
        by_status = "finish checks the status" in self.guards
        if (by_token and row.token != child.token) or (by_status and row.status not in OWNED):
            return Step("the finish is refused", left)
        stale = row.attempt != child.attempt
        after, broken = self._ended(
            left, "cancelled" if row.status == "cancel_requested" else "succeeded"
        )
        return Step("finish", after, "I4" if stale else broken)

    # Others: `caller/cancel.py`, `recovery/`.

    def _cancel(self, world: World) -> Iterator[Step]:
        if world.row.status == "queued":
            after, broken = self._ended(world, "cancelled")
            yield Step("cancel", after, broken)
        if world.row.status == "running":
            yield Step("ask to cancel", with_row(world, status="cancel_requested"))

    def _sweeper(self, world: World) -> Iterator[Step]:
        row = world.row
        if world.sweeper is None:
            gone = self._owner(world, alive=False)
            launch_over = row.status == "queued" and row.due
            if launch_over or (row.status in OWNED and (row.expired or gone != NOBODY)):
                yield Step("the sweeper reads", world._replace(sweeper=seen(row, gone)))
            return
        read, after = world.sweeper, world._replace(sweeper=None)
        if not self._still(row, read):
            yield Step("the sweeper is late", after)
            return
        status: Status = "failed" if read.status == "queued" else self._verdict(read)
        yield self._verdict_step("the sweeper ends it", after, status)

    def _still(self, row: Row, read: Seen) -> bool:
        """Whether the row is as it was seen, as far as the write looks."""
        if "sweep checks the status in its write" in self.guards and row.status != read.status:
            return False
        if row.attempt != read.attempt:
            return False
        if "sweep checks the token in its write" in self.guards and row.token != read.token:
            return False
        return "sweep checks the lease in its write" not in self.guards or row.lease == read.lease

    def _settler(self, world: World) -> Iterator[Step]:
        """A parent's report: the launcher's thread, `settle`, or a supervisor."""
        if world.settler is None:
            for index, child in enumerate(world.children):
                ours = child.parent == NOBODY or (child.token and self._parent_lives(world, child))
                if child.phase == "gone" and not child.told and ours:
                    after = with_child(world, index, told=True)
                    yield Step("a report", after._replace(settler=seen(world.row, index)))
            return
        read, row, after = world.settler, world.row, world._replace(settler=None)
        child = world.children[read.child]
        named = "a report names its owner" in self.guards
        if read.status == "queued" and child.parent == NOBODY:
            if row.status == "queued" and (row.attempt == child.attempt or not named):
                strange = "I11" if row.attempt != child.attempt else ""
                ended, broken = self._ended(after, "failed")
                yield Step("the report fails the launch", ended, strange or broken)
                return
        elif (
            read.status in OWNED
            and (read.token == child.token or not named)
            and seen(row, read.child)[:4] == read[:4]
        ):
            yield self._verdict_step("the report ends it", after, self._verdict(read))
            return
        yield Step("the report changes nothing", after)

    def _parent_lives(self, world: World, child: Child) -> bool:
        return child.parent != NOBODY and world.supervisors[child.parent].alive

    def _verdict(self, read: Seen) -> Status:
        if read.status == "cancel_requested":
            return "cancelled"
        if not read.marker and self.scope.mode == "pull":
            return "queued" if read.attempt < ATTEMPTS else "failed"
        return "lost" if read.marker and read.child == NOBODY else "interrupted"

    def _verdict_step(self, name: str, world: World, status: Status) -> Step:
        row = world.row
        alive = row.status in OWNED and self._owner(world, alive=True) != NOBODY
        wrong = "I10" if alive and not row.expired else ""
        if status != "queued":
            after, broken = self._ended(world, status)
            return Step(name, after, wrong or broken)
        broken = "I3" if world.ends[row.attempt - 1] else ""
        ends = put(world.ends, row.attempt)
        again = Row(status="queued", attempt=row.attempt + 1)
        return Step(name, world._replace(row=again, ends=ends), wrong or broken)

    def _owner(self, world: World, *, alive: bool) -> int:
        """The child that owns the row, if it lives, or if it is gone."""
        for index, child in enumerate(world.children):
            owns = child.token == world.row.token != 0 and child.attempt == world.row.attempt
            if owns and (child.phase != "gone") == alive:
                return index
        return NOBODY

    def _time(self, world: World) -> Iterator[Step]:
        row = world.row
        if row.status == "queued" and self.scope.mode != "pull" and not row.due:
            yield Step("the claim's time is over", with_row(world, due=True))
        if row.status in OWNED and not row.expired:
            yield Step("the lease is over", with_row(world, expired=True))
        if row.by != NOBODY and not row.over:
            yield Step("the reservation's time is over", with_row(world, over=True))

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
