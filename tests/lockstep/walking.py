"""How long and how far the machine walks.

`JOBRUNNER_EXAMPLES=1000` walks as often, at random instead of always alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.lockstep.ground import Ground
from tests.lockstep.machine import Machine
from tests.lockstep.stepping import Lockstep

LONG = int(os.environ.get("JOBRUNNER_EXAMPLES", "0"))


def walk_of(examples: int) -> settings:
    return settings(
        max_examples=LONG or examples,
        stateful_step_count=40,
        derandomize=not LONG,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


# Of what is broken one example is enough, and nobody reads it. Most is found in ten walks, all in
# twenty; how they go is up to the version of Hypothesis, so there may be more.
HUNT = settings(
    walk_of(150),
    max_examples=150,
    stateful_step_count=15,
    derandomize=True,
    phases=[Phase.generate],
)


def walk(how: settings, make: Callable[[], Lockstep]) -> None:
    class OnThese(Machine):
        steps = staticmethod(make)

    run_state_machine_as_test(OnThese, settings=how)


def hunt(deeds: set[str], make: Callable[[], Lockstep]) -> None:
    """Walk with these rules only: among all of them what is hunted would come too rarely."""
    ways = {
        name: way
        for role in Machine.__mro__
        if issubclass(role, Ground)
        for name, way in vars(role).items()
        if callable(way) and not name.startswith(("_", "with_"))
    }
    assert deeds <= set(ways)
    others = {name: _no_rule(way) for name, way in ways.items() if name not in deeds}
    hunted = type("Hunted", (Machine,), {**others, "steps": staticmethod(make)})
    run_state_machine_as_test(hunted, settings=HUNT)


def _no_rule(way: Callable[..., Any]) -> Callable[..., Any]:
    """The same, still there for the rules that are made of it."""

    def plain(self: Machine, *args: Any, **named: Any) -> Any:
        return way(self, *args, **named)

    return plain
