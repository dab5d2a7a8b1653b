"""Every recipe of docs/testing.md, run as the test suite of a little project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flask_jobrunner.testing
from flask_jobrunner.testing import FakeContext, FakeProgram, RecordedJob, SaidLine, fixtures

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
APPLICATION = "The application under test"
ROLLED_BACK = "A test that rolls everything back"


def recipes() -> dict[str, dict[str, str]]:
    """The files of each section that has any."""
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        blocks = re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        if blocks:
            found[title] = dict(blocks)
    return found


RECIPES = recipes()


def run(title: str, folder: Path, **environment: str) -> None:
    """Write a recipe beside the application, and let its reader run pytest there."""
    files = RECIPES[APPLICATION] | RECIPES[title]
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    variables = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env={**variables, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    promised = sum(text.count("\ndef test_") for text in files.values())
    assert done.returncode == 0, done.stdout + done.stderr
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None
    assert int(counted[1]) >= promised > 0


@pytest.mark.parametrize("title", sorted(RECIPES.keys() - {APPLICATION, ROLLED_BACK}))
def test_a_recipe_works_as_it_stands(title: str, tmp_path: Path) -> None:
    run(title, tmp_path)


def test_rolling_back_works_on_every_database(database_url: str, tmp_path: Path) -> None:
    run(ROLLED_BACK, tmp_path, TEST_DATABASE_URL=database_url)


def test_every_block_is_one_that_is_run_here() -> None:
    blocks = PAGE.count("```python\n")
    # The line that turns the fixtures on stands in the recipes as well.
    assert sum(len(files) for files in RECIPES.values()) == blocks - 1


def test_every_name_is_described() -> None:
    names = {*flask_jobrunner.testing.__all__, *fixtures.__all__}
    names |= {*RecordedJob.__dataclass_fields__, *FakeProgram.__dataclass_fields__}
    names |= {*SaidLine._fields, "recorded"}
    names |= {name for name in vars(FakeContext) if not name.startswith("_")}

    for name in names:
        assert re.search(rf"\b{name}\b", PAGE), name
