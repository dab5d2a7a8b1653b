"""The shape of the house: what the linters do not see."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "flask_jobrunner"

LONGEST_FILE = 400
WRITTEN_BY_HAND = {".py", ".html", ".css", ".js", ".sh", ".toml"}
FLOORS_WITHOUT_LIBRARIES = ("model", "protocol", "shim")
THE_ONE_PAUSE = ROOT / "tests" / "helpers" / "waiting.py"

# Split, so that this file does not find itself.
LOCAL_WORDS = re.compile(
    "|".join(
        [
            r"/wo" + r"rk/\w",
            r"/tmp/pl" + r"an\b",
            r"/ro" + r"ot/\w",
            r"\bpypi" + r"\.org",
            r"pythonho" + r"sted",
            r"npm" + r"js\.(org|com)",
            r"deb\.deb" + r"ian",
        ]
    )
)


@cache
def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def is_vendored(path: Path) -> bool:
    return path.name.endswith(".min.js")


def modules(*folders: Path) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported_libraries(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in tracked_files()
        if path.suffix in WRITTEN_BY_HAND and not is_vendored(path)
    }

    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_every_module_has_its_place_in_the_import_contracts() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    floors, sql, *_ = settings["tool"]["importlinter"]["contracts"]
    placed = {name.strip() for layer in floors["layers"] for name in re.split("[|:]", layer)}
    without_sql = {name.partition(".")[2] for name in sql["source_modules"]}
    there = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    } - {"__init__"}

    assert placed == there
    assert without_sql == there - {"repositories", "extension"}


def test_the_lowest_floors_need_the_standard_library_only() -> None:
    siblings = {path.stem for path in (PACKAGE / "shim").glob("*.py")}
    allowed = sys.stdlib_module_names | {"flask_jobrunner"}
    folders = [PACKAGE / name for name in FLOORS_WITHOUT_LIBRARIES]
    strangers = {
        str(path.relative_to(ROOT)): found
        for path, tree in modules(*folders)
        if (found := set(imported_libraries(tree)) - allowed)
        and not (path.parent.name == "shim" and path.stem == "__main__" and found <= siblings)
    }

    assert strangers == {}


def test_the_shim_imports_nothing_of_the_package() -> None:
    # Run by path, it has no package: only its __main__, imported by a test, may name siblings so.
    users = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in modules(PACKAGE / "shim")
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and "flask_jobrunner" in ast.unparse(node)
        and not (
            path.stem == "__main__"
            and isinstance(node, ast.ImportFrom)
            and node.module == "flask_jobrunner.shim"
        )
    ]

    assert users == []


def test_no_test_pauses_but_through_the_waiting_helpers() -> None:
    # A test's *jobs* may sleep: the host apps' modules are not named test_* and are not asked.
    pausing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in modules(ROOT / "tests")
        if path != THE_ONE_PAUSE
        and (path.name.startswith(("test_", "conftest")) or path.parent.name == "helpers")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}
    ]

    assert pausing == []


def test_vendored_scripts_are_what_their_note_says() -> None:
    scripts = sorted(PACKAGE.rglob("*.min.js"))
    notes = "\n".join(
        path.read_text(encoding="utf-8")
        for path in PACKAGE.joinpath("static").rglob("*")
        if path.suffix in {".md", ".txt"} or path.name.startswith("LICENSE")
    )
    unknown = [
        path.name
        for path in scripts
        if hashlib.sha256(path.read_bytes()).hexdigest() not in notes or path.name not in notes
    ]

    assert scripts != []
    assert unknown == []
    assert any(path.name.startswith("LICENSE") for path in PACKAGE.joinpath("static").rglob("*"))


def test_no_line_names_a_place_of_the_machine_it_was_written_on() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in tracked_files()
        if not is_vendored(path)
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1)
        if LOCAL_WORDS.search(line)
    ]

    assert named == []
