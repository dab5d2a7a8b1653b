"""What a wildlife-strike file must look like, and how each of its rows is judged and cleaned.

A row that lacks what makes it a strike (where, when, what) is left out. Any other bad cell is
emptied and the row kept; nothing is guessed. A contradiction that cannot be settled is kept and
counted. Only the standard library is needed here, so the rules can be read and tested alone.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

AIRPORT, DATE, SPECIES = "Airport Name", "Flight Date", "Wildlife Species"
DAMAGE, PHASE, SPEED = "Effect Amount of damage", "Phase of flight", "Speed IAS in knots"
OTHER, REPAIR, TOTAL = "Cost Other", "Cost Repair", "Cost Total $"
STATE, OPERATOR, AIRCRAFT = "Origin State", "Aircraft Airline Operator", "Aircraft Make Model"
SIZE, TIME = "Wildlife Size", "Time of day"
COLUMNS = (
    AIRPORT, AIRCRAFT, DAMAGE, DATE, OPERATOR, STATE, PHASE,
    SIZE, SPECIES, TIME, OTHER, REPAIR, TOTAL, SPEED,
)  # fmt: skip

DAMAGE_GRADES = ("None", "Minor", "Medium", "Substantial", "Destroyed")
IN_THE_AIR = ("climb", "approach", "descent", "en route")
CELL_MAX = 80
SPEED_MAX = 700
COST_MAX = 10_000_000_000
FIRST_FLIGHT = dt.date(1903, 12, 17)

Effect = Literal["row left out", "cell emptied", "kept as it is"]
Cells = dict[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it stands in the file; `number` is the line a spreadsheet would show."""

    number: int
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a row, and what was done about it."""

    rule: str
    effect: Effect
    value: str = ""

    @property
    def fatal(self) -> bool:
        """Whether the row is left out."""
        return self.effect == "row left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanStrike:
    """A row after cleaning. None: the file does not say, or says something impossible."""

    row_number: int
    airport: str
    state: str | None
    struck_on: dt.date
    operator: str | None
    aircraft: str | None
    phase: str | None
    time_of_day: str | None
    species: str
    size: str | None
    damage: str | None
    cost_usd: int | None
    speed_knots: int | None


def read(text: str) -> tuple[list[str], Iterator[Row]]:
    """The header and the rows of a CSV text. Blank lines count as lines but are no rows."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = [name.strip() for name in next(lines, [])]
    rows = (
        Row(number, tuple(cell.strip() for cell in line))
        for number, line in enumerate(lines, start=2)
        if line
    )
    return header, rows


class Judge:
    """Judges the rows of one file, in order: it remembers those it has seen."""

    def __init__(self, header: list[str], *, today: dt.date) -> None:
        self._header = header
        self._today = today
        self._seen: dict[tuple[str, ...], int] = {}

    def findings(self, row: Row) -> list[Finding]:
        """Everything wrong with this row; a fatal finding comes alone."""
        fatal = self._fatal(row)
        return [fatal] if fatal else list(_doubts(self.cells(row)))

    def cells(self, row: Row) -> Cells:
        """The row's values by column."""
        return dict(zip(self._header, row.values, strict=False))

    def _fatal(self, row: Row) -> Finding | None:
        if len(row.values) != len(self._header):
            return _left_out("the number of cells differs from the header", str(len(row.values)))
        unusable = _unusable(self.cells(row), self._today)
        if unusable:
            return unusable
        # Without a report number a double report cannot be told from a second strike alike in all.
        first = self._seen.setdefault(row.values, row.number)
        if first != row.number:
            return _left_out("the same as an earlier row", f"row {first}")
        return None


def clean(cells: Cells, number: int) -> CleanStrike:
    """The strike that a row without a fatal finding stands for."""
    day = date_of(cells[DATE])
    assert day is not None, "a row without a date was judged fatal"
    return CleanStrike(
        row_number=number,
        airport=readable(cells[AIRPORT]),
        state=cells[STATE] or None,
        struck_on=day,
        # Some names carry an asterisk: a footnote mark whose footnote is not in the file.
        operator=readable(cells[OPERATOR].rstrip("*")) or None,
        aircraft=squeezed(cells[AIRCRAFT]) or None,
        phase=cells[PHASE].capitalize() or None,
        time_of_day=cells[TIME] or None,
        species=squeezed(cells[SPECIES]),
        size=cells[SIZE] or None,
        damage=cells[DAMAGE] if cells[DAMAGE] in DAMAGE_GRADES else None,
        cost_usd=_total_cost(cells),
        speed_knots=_speed(cells),
    )


def date_of(text: str) -> dt.date | None:
    """The day that `1998-07-31` names; None for any other spelling and for days that never were."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def whole_number(text: str, *, most: int) -> int | None:
    """The number 0 to `most` that the text spells in plain digits; None for anything else."""
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) > most:
        return None
    return int(text)


def squeezed(text: str) -> str:
    """The text with each run of white space as one space."""
    return " ".join(text.split())


def readable(name: str) -> str:
    """A name in capitals as one would write it: `LOGAN INTL` is `Logan International`."""
    name = squeezed(name)
    if not name.isupper():
        return name
    return re.sub(r"[A-Z']+", lambda word: _WORDS.get(word[0], word[0].title()), name)


_WORDS = {
    "INTL": "International", "NATL": "National", "ARPT": "Airport", "EXPRS": "Express",
    "AFB": "AFB", "NY": "NY", "OR": "OR", "ABX": "ABX", "PSA": "PSA", "UPS": "UPS", "US": "US",
    "FEDEX": "FedEx", "JETBLUE": "JetBlue", "SKYWEST": "SkyWest", "LAGUARDIA": "LaGuardia",
    "EXPRESSJET": "ExpressJet", "AIRTRAN": "AirTran", "ALLEGHENYAIRLINES": "Allegheny Airlines",
}  # fmt: skip


def _unusable(cells: Cells, today: dt.date) -> Finding | None:
    for column in (AIRPORT, SPECIES, DATE):
        if not cells[column]:
            return _left_out(f"{column} is blank")
    for column in COLUMNS:
        if len(cells[column]) > CELL_MAX:
            return _left_out(f"{column} is longer than {CELL_MAX} characters", cells[column])
    day = date_of(cells[DATE])
    if day is None:
        return _left_out(f"{DATE} is not a date like 1998-07-31", cells[DATE])
    if not FIRST_FLIGHT <= day <= today:
        return _left_out(f"{DATE} is before the first flight or after today", cells[DATE])
    return None


def _doubts(cells: Cells) -> Iterator[Finding]:
    if cells[DAMAGE] and cells[DAMAGE] not in DAMAGE_GRADES:
        yield Finding("an unknown grade of damage", "cell emptied", cells[DAMAGE])
    if cells[SPEED] and _speed(cells) is None:
        rule = "0 knots in the air" if cells[SPEED] == "0" else f"no speed of 0 to {SPEED_MAX}"
        yield Finding(rule, "cell emptied", f"{cells[SPEED]} kt, {cells[PHASE]}")
    yield from _doubtful_costs(cells)


def _doubtful_costs(cells: Cells) -> Iterator[Finding]:
    costs = {
        column: whole_number(cells[column], most=COST_MAX) for column in (OTHER, REPAIR, TOTAL)
    }
    if any(cells[column] and cost is None for column, cost in costs.items()):
        shown = " + ".join((cells[OTHER], cells[REPAIR])) + " = " + cells[TOTAL]
        yield Finding("a cost that is not whole dollars", "cell emptied", shown)
    elif costs[TOTAL] is not None and costs[TOTAL] != (costs[OTHER] or 0) + (costs[REPAIR] or 0):
        yield Finding("the total cost is not the sum of its parts", "cell emptied", cells[TOTAL])
    elif costs[REPAIR] and cells[DAMAGE] == "None":
        yield Finding("no damage, but repairs were paid", "kept as it is", f"${costs[REPAIR]:,}")


def _total_cost(cells: Cells) -> int | None:
    if any(finding.effect == "cell emptied" for finding in _doubtful_costs(cells)):
        return None
    return whole_number(cells[TOTAL], most=COST_MAX)


def _speed(cells: Cells) -> int | None:
    speed = whole_number(cells[SPEED], most=SPEED_MAX)
    return None if speed == 0 and cells[PHASE].casefold() in IN_THE_AIR else speed


def _left_out(rule: str, value: str = "") -> Finding:
    return Finding(rule, "row left out", value[:CELL_MAX])
