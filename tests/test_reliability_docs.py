"""docs/faults.md and docs/reliability.md name every fault and invariant, and tests that exist."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAULTS = ROOT / "docs" / "faults.md"
PROMISES = ROOT / "docs" / "reliability.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::((?:\w+::)?test_\w+)`")
NOT_TESTED = "not tested: "
WORDS_OF_A_REASON = 5


def table(page: Path, letter: str) -> list[tuple[str, list[str]]]:
    """The lines of a page's tables that are about a numbered thing: its number, its cells."""
    found = re.findall(rf"^\| ({letter}\d+) \| (.+) \|$", page.read_text("utf-8"), re.MULTILINE)
    return [(number, cells.split(" | ")) for number, cells in found]


def named_tests() -> Iterator[tuple[str, str, str]]:
    """Page, file and name of every test that a page names."""
    for page in (FAULTS, PROMISES):
        for file, name in TEST.findall(page.read_text("utf-8")):
            yield page.name, file, name


@functools.cache
def defined_in(file: str) -> set[str]:
    """What a file defines: its test functions, and `Class::method` of its classes."""
    path = ROOT / file
    if not path.exists():
        return set()
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            names |= {f"{node.name}::{method.name}" for method in methods}
    return names


@pytest.mark.parametrize(("page", "letter", "last"), [(FAULTS, "F", 153), (PROMISES, "I", 25)])
def test_each_number_has_exactly_one_line(page: Path, letter: str, last: int) -> None:
    numbers = [number for number, _ in table(page, letter)]

    assert numbers == [f"{letter}{number}" for number in range(1, last + 1)]


def test_each_line_is_whole() -> None:
    for number, cells in table(FAULTS, "F"):
        assert len(cells) == 3, number
        assert all(cell.strip() for cell in cells), number
    assert [number for number, cells in table(PROMISES, "I") if len(cells) != 2] == []


def test_every_test_that_is_named_exists() -> None:
    missing = [named for named in named_tests() if named[2] not in defined_in(named[1])]

    assert missing == []


def test_each_fault_has_a_test_or_a_reason_for_none() -> None:
    for number, (_, _, tested) in table(FAULTS, "F"):
        if tested.startswith(NOT_TESTED):
            assert len(tested.removeprefix(NOT_TESTED).split()) >= WORDS_OF_A_REASON, number
        else:
            named = [TEST.fullmatch(part) for part in tested.split(", ")]
            assert all(named), (number, tested)


def test_each_promise_names_who_looks_at_it() -> None:
    assert [number for number, cells in table(PROMISES, "I") if not TEST.search(cells[1])] == []
