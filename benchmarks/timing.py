"""Taking times, and saying what two of them mean beside each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One measure of ours beside the bare thing it is measured against, taken in turns."""

    measure: str
    database: str
    ours: list[float]
    bare: list[float]
    unit: str
    target: float
    more_is_better: bool = False

    @property
    def ratio(self) -> float:
        """The median of ours divided by the bare median."""
        return median(self.ours) / median(self.bare)

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.target if self.more_is_better else self.ratio <= self.target

    def line(self) -> str:
        """One row of the report."""
        sign = ">=" if self.more_is_better else "<="
        verdict = "met" if self.is_met else "NOT MET"
        return (
            f"{self.measure:<44} {self.database:<11} {spread(self.ours):>24} "
            f"{spread(self.bare):>24} {self.unit:<8} {self.ratio:>6.2f} {sign} {self.target:<5}"
            f"{verdict}"
        )


HEADER = (
    f"{'measure':<44} {'database':<11} {'ours: p50 (p10-p90)':>24} "
    f"{'bare: p50 (p10-p90)':>24} {'unit':<8} {'ratio':>6}    target"
)


def milliseconds(action: Callable[[], object]) -> float:
    """How long `action` took."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def spread(values: list[float], digits: int = 1) -> str:
    """The median, and the 10th and 90th percentile where there are enough of them."""
    if len(values) < 3:
        return f"{median(values):,.{digits}f}"
    tenths = quantiles(values, n=10, method="inclusive")
    return f"{median(values):,.{digits}f} ({tenths[0]:,.{digits}f}-{tenths[-1]:,.{digits}f})"
