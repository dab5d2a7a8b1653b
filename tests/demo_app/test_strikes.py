"""The rules for one row, each shown by a row that breaks it."""

from __future__ import annotations

import datetime as dt

import pytest

from demo_app import strikes

TODAY = dt.date(2026, 1, 1)
GOOD = {
    strikes.AIRPORT: "CHICAGO O'HARE INTL ARPT",
    strikes.AIRCRAFT: "B-737-300",
    strikes.DAMAGE: "Minor",
    strikes.DATE: "1998-07-31",
    strikes.OPERATOR: "US AIRWAYS*",
    strikes.STATE: "Illinois",
    strikes.PHASE: "Landing Roll",
    strikes.SIZE: "Small",
    strikes.SPECIES: "Rock  pigeon",
    strikes.TIME: "Day",
    strikes.OTHER: "10",
    strikes.REPAIR: "20",
    strikes.TOTAL: "30",
    strikes.SPEED: "140",
}


def a_row(number: int = 2, /, **changes: str) -> strikes.Row:
    """A good row with some cells changed, named by the constants of `strikes`."""
    named = {getattr(strikes, name): value for name, value in changes.items()}
    return strikes.Row(number, tuple((GOOD | named).values()))


def a_judge() -> strikes.Judge:
    """A judge who has seen nothing yet."""
    return strikes.Judge(list(GOOD), today=TODAY)


def cleaned(**changes: str) -> strikes.CleanStrike:
    """That row after cleaning."""
    return strikes.clean(a_judge().cells(a_row(**changes)), 2)


def test_a_good_row_has_no_findings() -> None:
    assert a_judge().findings(a_row()) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"AIRPORT": ""}, "Airport Name is blank"),
        ({"SPECIES": ""}, "Wildlife Species is blank"),
        ({"DATE": ""}, "Flight Date is blank"),
        ({"DATE": "31.07.1998"}, "Flight Date is not a date like 1998-07-31"),
        ({"DATE": "1998-02-30"}, "Flight Date is not a date like 1998-07-31"),
        ({"DATE": "19980731"}, "Flight Date is not a date like 1998-07-31"),
        ({"DATE": "1850-01-01"}, "Flight Date is before the first flight or after today"),
        ({"DATE": "2026-01-02"}, "Flight Date is before the first flight or after today"),
        ({"OPERATOR": "x" * 81}, "Aircraft Airline Operator is longer than 80 characters"),
    ],
)
def test_a_row_without_where_when_and_what_is_left_out(changes: dict[str, str], rule: str) -> None:
    (finding,) = a_judge().findings(a_row(**changes))

    assert (finding.rule, finding.fatal) == (rule, True)


def test_a_row_with_other_cells_than_the_header_is_left_out() -> None:
    (finding,) = a_judge().findings(strikes.Row(2, ("one", "two")))

    assert finding.fatal
    assert finding.value == "2"


def test_a_repeated_row_is_left_out_and_names_the_first() -> None:
    judge = a_judge()
    assert judge.findings(a_row(7)) == []

    (finding,) = judge.findings(a_row(9))

    assert (finding.rule, finding.value) == ("the same as an earlier row", "row 7")


@pytest.mark.parametrize(
    ("changes", "rule", "field"),
    [
        ({"DAMAGE": "C"}, "an unknown grade of damage", "damage"),
        ({"SPEED": "0", "PHASE": "Approach"}, "0 knots in the air", "speed_knots"),
        ({"SPEED": "fast"}, "no speed of 0 to 700", "speed_knots"),
        ({"SPEED": "-5"}, "no speed of 0 to 700", "speed_knots"),
        ({"SPEED": "701"}, "no speed of 0 to 700", "speed_knots"),
        ({"REPAIR": "n/a"}, "a cost that is not whole dollars", "cost_usd"),
        ({"TOTAL": "1e3"}, "a cost that is not whole dollars", "cost_usd"),
        ({"TOTAL": "31"}, "the total cost is not the sum of its parts", "cost_usd"),
    ],
)
def test_a_bad_cell_is_emptied_and_the_row_kept(
    changes: dict[str, str], rule: str, field: str
) -> None:
    (finding,) = a_judge().findings(a_row(**changes))

    assert (finding.rule, finding.effect) == (rule, "cell emptied")
    assert getattr(cleaned(**changes), field) is None


def test_a_contradiction_is_kept_as_it_is() -> None:
    (finding,) = a_judge().findings(a_row(DAMAGE="None"))

    assert finding.effect == "kept as it is"
    assert (cleaned(DAMAGE="None").damage, cleaned(DAMAGE="None").cost_usd) == ("None", 30)


def test_blank_cells_that_may_be_blank_are_none_and_no_finding() -> None:
    blank = dict.fromkeys(("SPEED", "DAMAGE", "OPERATOR", "TOTAL", "OTHER", "REPAIR"), "")

    assert a_judge().findings(a_row(**blank)) == []
    strike = cleaned(**blank)
    assert (strike.speed_knots, strike.damage, strike.operator, strike.cost_usd) == (None,) * 4


def test_standing_still_on_the_ground_is_a_speed() -> None:
    assert a_judge().findings(a_row(SPEED="0", PHASE="Parked")) == []
    assert cleaned(SPEED="0", PHASE="Parked").speed_knots == 0


def test_cleaning_makes_names_readable() -> None:
    strike = cleaned()

    assert strike.airport == "Chicago O'Hare International Airport"
    assert strike.operator == "US Airways"
    assert strike.species == "Rock pigeon"
    assert strike.phase == "Landing roll"
    assert strike.struck_on == dt.date(1998, 7, 31)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PORTLAND INTL (OR)", "Portland International (OR)"),
        ("DALLAS/FORT WORTH INTL ARPT", "Dallas/Fort Worth International Airport"),
        ("Already   fine", "Already fine"),
        ("", ""),
    ],
)
def test_readable(name: str, expected: str) -> None:
    assert strikes.readable(name) == expected


def test_rows_carry_the_number_of_a_spreadsheet() -> None:
    header, rows = strikes.read('a, b \n1,"two\nlines"\n\n3,4\n')

    assert header == ["a", "b"]
    assert list(rows) == [strikes.Row(2, ("1", "two\nlines")), strikes.Row(4, ("3", "4"))]
