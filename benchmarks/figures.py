"""What one measure came to beside what it should be at most, or at least."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import quantiles


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number with its target."""

    measure: str
    where: str
    value: float
    unit: str
    target: float
    more_is_better: bool = False

    @property
    def is_met(self) -> bool:
        return self.value >= self.target if self.more_is_better else self.value <= self.target

    def line(self) -> str:
        """One row of the report."""
        sign = ">=" if self.more_is_better else "<="
        verdict = "met" if self.is_met else "NOT MET"
        return (
            f"{self.measure:<68} {self.where:<11} {self.value:>10,.1f} {self.unit:<8} "
            f"{sign} {self.target:<8,g} {verdict}"
        )


def report(figures: Iterable[Figure]) -> int:
    """Print them as they come; how many targets were missed."""
    print(f"{'measure':<68} {'where':<11} {'figure':>10} {'unit':<8}    target")
    missed = 0
    for figure in figures:
        print(figure.line(), flush=True)
        missed += not figure.is_met
    return missed


def percentile(values: Sequence[float], percent: int) -> float:
    """So many percent of the values are at most this."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]
