"""Those who end what others began: the sweeper, and a parent with its report."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model_check.ground import Ground
from tests.model_check.world import (
    ATTEMPTS,
    NOBODY,
    OWNED,
    Child,
    Row,
    Seen,
    Status,
    Step,
    World,
    put,
    seen,
    with_child,
)


class Judging(Ground):
    """Writes of `recovery/`: each reads first, and writes later."""

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
