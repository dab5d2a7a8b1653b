"""What may happen next, and which promise it breaks. Each rule is one write of the real system.

A process may stop between any two of its steps and go on later: that is what interleaving is. The
numbers of the promises are those of `docs/reliability.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model_check.asking import Asking
from tests.model_check.judging import Judging
from tests.model_check.world import (
    NOBODY,
    OWNED,
    Child,
    Row,
    Step,
    World,
    put,
    with_child,
    with_row,
)


class Rules(Asking, Judging):
    """The steps from a world, with some guards in place."""

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

    # Time.

    def _time(self, world: World) -> Iterator[Step]:
        row = world.row
        if row.status == "queued" and self.scope.mode != "pull" and not row.due:
            yield Step("the claim's time is over", with_row(world, due=True))
        if row.status in OWNED and not row.expired:
            yield Step("the lease is over", with_row(world, expired=True))
        if row.by != NOBODY and not row.over:
            yield Step("the reservation's time is over", with_row(world, over=True))
