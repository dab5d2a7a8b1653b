"""What came out, as rows: each contestant, and ours beside each of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.peers.contestants import Contestant
from benchmarks.timing import spread


@dataclass(frozen=True, kw_only=True)
class Target:
    """How many times the other's figure ours may be at most, or should be at least."""

    times: float
    more_is_better: bool = False

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.times if self.more_is_better else ratio <= self.times

    def __str__(self) -> str:
        return f"{'>=' if self.more_is_better else '<='} {self.times:g}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measure of one contestant; `ratios` are ours on each database, divided by it."""

    measure: str
    name: str
    service: str
    values: Sequence[float]
    unit: str
    ratios: Mapping[str, float]
    target: Target | None = None

    @property
    def missed(self) -> int:
        """How many targets are not met."""
        target = self.target
        return 0 if target is None else sum(not target.is_met(one) for one in self.ratios.values())

    def line(self) -> str:
        """One row of the report."""
        said = "  ".join(f"{where} {ratio:.2f}" for where, ratio in self.ratios.items())
        verdict = ""
        if self.target is not None and self.ratios:
            verdict = f"{self.target} {'NOT MET' if self.missed else 'met'}"
        return (
            f"{self.measure:<26} {self.name:<24} {self.service:<11} "
            f"{spread(list(self.values)):>26} {self.unit:<7} {said:<32} {verdict}"
        ).rstrip()


HEADER = (
    f"{'measure':<26} {'contestant':<24} {'queue':<11} {'p50 (p10-p90)':>26} {'unit':<7} "
    f"{'ours divided by it':<32} target"
)


def rows(
    measure: str,
    unit: str,
    found: Mapping[Contestant, Sequence[float]],
    targets: Mapping[str, Target],
) -> list[Row]:
    """A row for each contestant; `targets` by the name of whom ours is measured against."""
    ours = {one.service: median(values) for one, values in found.items() if one.name == "ours"}
    made = []
    for one, values in found.items():
        ratios = {where: _divided(value, median(values)) for where, value in ours.items()}
        if one.is_ours:
            ratios = {where: ratios[where] for where in ratios if where == one.service}
        made.append(
            Row(
                measure=measure,
                name=one.name,
                service=one.service,
                values=values,
                unit=unit,
                ratios={} if one.name == "ours" else ratios,
                target=targets.get(one.name),
            )
        )
    return made


def _divided(our: float, other: float) -> float:
    # A handler may begin before enqueue has returned: no multiple of that says anything.
    return our / other if other > 0 else math.inf


def report(made: Sequence[Row]) -> int:
    """Print them; how many targets were missed."""
    for row in made:
        print(row.line(), flush=True)
    return sum(row.missed for row in made)


def not_installed(contestant: Contestant) -> None:
    """Say that it is not measured."""
    print(f"{contestant.name}: not installed, not measured", flush=True)
