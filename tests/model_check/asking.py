"""Those who ask: a request that starts or requeues, one that cancels, a supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tests.model_check.ground import NO_CREDENTIAL, RESERVED, Ground
from tests.model_check.world import (
    ATTEMPTS,
    NOBODY,
    OWNED,
    TERMINAL,
    Caller,
    Child,
    Row,
    Step,
    World,
    with_caller,
    with_child,
    with_row,
    with_supervisor,
)


class Asking(Ground):
    """Writes of whoever wants a job to run, or not to."""

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

    # Whoever cancels: `caller/cancel.py`.

    def _cancel(self, world: World) -> Iterator[Step]:
        if world.row.status == "queued":
            after, broken = self._ended(world, "cancelled")
            yield Step("cancel", after, broken)
        if world.row.status == "running":
            yield Step("ask to cancel", with_row(world, status="cancel_requested"))
