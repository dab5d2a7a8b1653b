"""How long and how far the machine walks.

`JOBRUNNER_EXAMPLES=1000` walks as often, at random instead of always alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

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


# Of what is broken one example is enough, and nobody reads it.
HUNT = settings(
    walk_of(150),
    max_examples=150,
    stateful_step_count=20,
    derandomize=True,
    phases=[Phase.generate],
)


def walk(how: settings, make: Callable[[], Lockstep]) -> None:
    class OnThese(Machine):
        steps = staticmethod(make)

    run_state_machine_as_test(OnThese, settings=how)


def hunt(deed: str, make: Callable[[], Lockstep]) -> None:
    """On two jobs, without those who only remove or read, and with more of one deed."""

    class Hunted(Machine):
        steps = staticmethod(make)
        add = known = find_old = remove = read = None  # type: ignore[assignment]  # no rules any more
        more = even_more = getattr(Machine, deed)

    run_state_machine_as_test(Hunted, settings=HUNT)
