"""Breadth-first search over everything that can happen: the first violation is the shortest one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tests.model_check.ground import Scope
from tests.model_check.rules import Rules
from tests.model_check.world import TERMINAL, World


@dataclass(frozen=True)
class Found:
    """What the search came to. `broken` is empty where every promise holds."""

    worlds: int
    broken: str = ""
    trace: tuple[str, ...] = ()
    stuck: World | None = None
    """A world from which the job can end no more."""


def search(scope: Scope, guards: frozenset[str], *, limit: int = 3_000_000) -> Found:
    """Visit every world; stop at the first broken promise."""
    rules, first = Rules(scope, guards), scope.first()
    came: dict[World, tuple[World, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        world = waiting.popleft()
        for step in rules.steps(world):
            if step.broken:
                return Found(len(came), step.broken, (*_trace(came, world), step.name))
            if step.world not in came:
                came[step.world] = (world, step.name)
                waiting.append(step.world)
        if len(came) > limit:
            raise AssertionError(f"more than {limit} worlds: the scope is too wide")
    return Found(len(came), stuck=_stuck(rules, came))


def _trace(came: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    names = []
    while (before := came[world]) is not None:
        world, name = before
        names.append(name)
    return tuple(reversed(names))


def _stuck(rules: Rules, came: dict[World, tuple[World, str] | None]) -> World | None:
    """Some world from which no way leads to an end."""
    before: dict[World, list[World]] = {}
    good = []
    for world in came:
        if _is_good(rules.scope, world):
            good.append(world)
        for step in rules.steps(world):
            before.setdefault(step.world, []).append(world)
    reached = set(good)
    while good:
        for one in before.get(good.pop(), ()):
            if one not in reached:
                reached.add(one)
                good.append(one)
    return next((world for world in came if world not in reached), None)


def _is_good(scope: Scope, world: World) -> bool:
    if world.row.status in (*TERMINAL, "absent"):
        return True
    # Where the scope ends, nothing can be said.
    return len(world.children) >= scope.children or world.reservations >= scope.reservations
