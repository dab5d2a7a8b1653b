"""Fault points do nothing: only a test's application can give them something to do."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flask_jobrunner.protocol import fault_points
from flask_jobrunner.protocol.fault_points import ASKS, arm, fault_point

PACKAGE = Path(fault_points.__file__).parents[1]


@pytest.fixture
def unarmed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Whatever is armed is gone after the test."""
    monkeypatch.setattr(fault_points, "_hook", None)
    for name in ASKS:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("missing", ASKS)
def test_it_is_not_armed_unless_both_variables_are_set(
    unarmed: pytest.MonkeyPatch, missing: str
) -> None:
    for name in ASKS:
        unarmed.setenv(name, "1")
    unarmed.setenv(missing, "")
    came: list[str] = []

    with pytest.raises(RuntimeError, match=missing):
        arm(came.append)
    fault_point("claim.before")
    assert came == []

    unarmed.setenv(missing, "1")
    arm(came.append)
    fault_point("claim.before")
    assert came == ["claim.before"]


def test_no_environment_does_anything_by_itself() -> None:
    looks = (
        "import flask_jobrunner.extension, flask_jobrunner.__main__, flask_jobrunner.child.boot, "
        "flask_jobrunner.supervisor.loop\n"
        "from flask_jobrunner.protocol import fault_points\n"
        "print(fault_points._hook)"
    )
    every = {
        **dict.fromkeys(ASKS, "claim.before=kill"),
        "HOST_FAULTS": json.dumps({"point": "claim.before", "action": "kill"}),
    }
    done = subprocess.run(
        [sys.executable, "-c", looks],
        env={**os.environ, **every},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "None\n"


def test_nothing_in_the_package_arms_it() -> None:
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        taken = {
            alias.name
            for node in named
            if node.module and node.module.endswith("fault_points")
            for alias in node.names
        }
        assert taken <= {"fault_point"}, path
        modules = {alias.name for node in named for alias in node.names}
        assert "fault_points" not in modules, path
