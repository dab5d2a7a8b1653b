"""No point without a case, and no durable step without a point on either side."""

from __future__ import annotations

import ast
from pathlib import Path

from flask_jobrunner.protocol import fault_points
from tests.crash_matrix.table import DURABLE, ELSEWHERE, TABLE

PACKAGE = Path(fault_points.__file__).parents[1]


def names() -> set[str]:
    """What stands in the calls of `fault_point`; literals only."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "fault_point":
                (name,) = node.args
                literals = {
                    one.value
                    for one in ast.walk(name)
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                }
                assert literals, f"{path}:{node.lineno}"
                found |= literals
    return found


def test_each_point_of_the_source_has_its_row_and_each_row_its_point() -> None:
    assert names() == set(TABLE) | set(ELSEWHERE)
    assert not set(TABLE) & set(ELSEWHERE)


def test_each_durable_step_has_a_point_before_and_one_after() -> None:
    found = names()
    for step, (before, after) in DURABLE.items():
        assert {before, after} <= found & set(TABLE), step
