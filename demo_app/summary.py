"""Counts over cleaned strikes: what the job returns and the result page draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypedDict

from .strikes import DAMAGE_GRADES, CleanStrike


class Count(TypedDict):
    """One bar of a table."""

    name: str
    strikes: int


class Span(TypedDict):
    """The days between which the strikes lie, as `YYYY-MM-DD`; None in a file without any."""

    first: str | None
    last: str | None


class Cost(TypedDict):
    """US dollars, as reported at the time."""

    total_usd: int
    strikes_with_cost: int
    largest_usd: int


class Summary(TypedDict):
    """Everything that is counted."""

    dates: Span
    cost: Cost
    speed_not_given: int
    top_species: list[Count]
    top_airports: list[Count]
    top_operators: list[Count]
    by_year: list[Count]
    by_phase: list[Count]
    by_damage: list[Count]


class Tally:
    """Takes strikes one by one, so that a long count can show its progress."""

    def __init__(self, *, top: int = 8) -> None:
        self._top = top
        self._days: list[str] = []
        self._costs: list[int] = []
        self._without_speed = 0
        self._counts: dict[str, Counter[str]] = {
            name: Counter()
            for name in ("species", "airport", "operator", "year", "phase", "damage")
        }

    def add(self, strike: CleanStrike) -> None:
        """Count one strike."""
        self._days.append(strike.struck_on.isoformat())
        if strike.cost_usd:
            self._costs.append(strike.cost_usd)
        self._without_speed += strike.speed_knots is None
        for name, counter in self._counts.items():
            value = strike.struck_on.year if name == "year" else getattr(strike, name)
            counter["not known" if value is None else str(value)] += 1

    def summary(self) -> Summary:
        """What has been counted so far."""
        counts = self._counts
        return {
            "dates": {
                "first": min(self._days, default=None),
                "last": max(self._days, default=None),
            },
            "cost": {
                "total_usd": sum(self._costs),
                "strikes_with_cost": len(self._costs),
                "largest_usd": max(self._costs, default=0),
            },
            "speed_not_given": self._without_speed,
            "top_species": _named(_most(counts["species"], self._top)),
            "top_airports": _named(_most(counts["airport"], self._top)),
            "top_operators": _named(_most(counts["operator"], self._top)),
            "by_year": _named(sorted(counts["year"].items())),
            "by_phase": _named(_most(counts["phase"], self._top)),
            "by_damage": _named(
                (grade, counts["damage"][grade])
                for grade in (*DAMAGE_GRADES, "not known")
                if counts["damage"][grade]
            ),
        }


def _most(counter: Counter[str], number: int) -> list[tuple[str, int]]:
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:number]


def _named(items: Iterable[tuple[str, int]]) -> list[Count]:
    return [{"name": name, "strikes": strikes} for name, strikes in items]
