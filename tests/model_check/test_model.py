"""The model keeps every promise, and breaks one as soon as a guard that matters is taken away.

A mutant that no longer fails means that the model has lost its teeth.
"""

from __future__ import annotations

from typing import Literal

import pytest

from tests.model_check.ground import NO_CREDENTIAL, RESERVED, Scope
from tests.model_check.guards import ALL
from tests.model_check.search import search

Mode = Literal["push", "session", "pull"]
# (what is taken away, where, the promise that breaks, the longest way there)
MUTANTS: list[tuple[set[str], Mode, str, int]] = [
    ({"reconcile reads the row"}, "push", "I5", 6),
    ({"reconcile asks for its own attempt"}, "push", "I5", 12),
    ({"start marker is a compare-and-set"}, "push", "I8", 8),
    ({"finish checks the status"}, "push", "I3", 10),
    ({"finish checks the token"}, "push", "I4", 12),
    ({"each claim has a token of its own"}, "push", "I8", 12),
    ({"a credential is for one attempt"}, "push", "I9", 7),
    ({"mark-failed checks the status"}, "push", "I3", 6),
    ({"mark-failed checks the attempt"}, "push", "I11", 8),
    ({"sweep checks the status in its write"}, "push", "I3", 6),
    ({"sweep checks the lease in its write"}, "push", "I10", 9),
    ({"a report names its owner"}, "push", "I10", 9),
    ({"a report names its owner"}, "pull", "I10", 12),
    ({"minting checks the row"}, "session", NO_CREDENTIAL, 5),
    ({"reserving respects a reservation"}, "pull", RESERVED, 3),
    ({"giving back names the credential"}, "pull", RESERVED, 9),
    # What is redundant alone, and is not any more where its like is gone too.
    (
        {"claim checks the status", "ends and claims clear the credential"},
        "push",
        "I3",
        5,
    ),
]
REDUNDANT = [
    "claim checks the status",
    "claim checks the deadline",
    "sweep checks the token in its write",
]


def named(values: object) -> str:
    return " and ".join(sorted(values)) if isinstance(values, set) else str(values)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["push", "session", "pull"])
def test_every_promise_holds_in_every_world(mode: Mode) -> None:
    found = search(Scope(mode=mode), ALL)

    assert not found.broken, found.trace
    assert found.stuck is None, "a job from which no way leads to an end"
    assert found.worlds > 50_000


@pytest.mark.parametrize(("without", "mode", "broken", "steps"), MUTANTS, ids=named)
def test_without_this_guard_a_promise_breaks(
    without: set[str], mode: Mode, broken: str, steps: int
) -> None:
    assert without <= ALL
    found = search(Scope(mode=mode), ALL - without)

    assert found.broken == broken, found.trace
    assert len(found.trace) <= steps


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guard", REDUNDANT)
def test_what_is_redundant_is_known_to_be(guard: str) -> None:
    """Each of them is kept: it costs nothing, and another may be lost."""
    found = search(Scope(mode="push"), ALL - {guard})

    assert not found.broken, found.trace


def test_each_guard_is_somewhere_in_these_tests() -> None:
    taken = set().union(*(without for without, *_ in MUTANTS), REDUNDANT)

    assert taken == ALL
