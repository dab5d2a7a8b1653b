"""The documents say everything there is, and nothing that is not."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import click
import pytest

import flask_jobrunner
from flask_jobrunner import Job, JobContext, JobRunner, JobStatus
from flask_jobrunner.cli import jobs as commands
from flask_jobrunner.config import Config
from flask_jobrunner.dashboard.access import ACTION_WORDS
from flask_jobrunner.model.statuses import BOOT_REFUSALS, MOVES, STOP_REASONS, ExitCode, Reason

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("demo_app/**/*.md")])

# Moves that the status table knows and that nothing makes yet.
# Only where a verdict comes between a forced stop and its record.
NOT_DRAWN = {("running", "cancelled")}


def page(name: str) -> str:
    """The text of one document."""
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, without back quotes."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [
        [cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
    ]


def public(owner: type) -> set[str]:
    """The public methods of a class."""
    return {name for name in vars(owner) if not name.startswith("_")}


SETTINGS = {
    row[0]: row for row in rows(page("configuration.md")) if row[0].startswith("JOBRUNNER_")
}


def test_every_setting_is_documented_and_no_other() -> None:
    there = {f"JOBRUNNER_{item.name.upper()}" for item in dataclasses.fields(Config)}

    assert set(SETTINGS) == there
    assert all(len(row) == 4 and all(row) for row in SETTINGS.values())


@pytest.mark.parametrize("item", dataclasses.fields(Config), ids=lambda item: item.name)
def test_a_documented_default_is_the_default(item: dataclasses.Field[Any]) -> None:
    said = SETTINGS[f"JOBRUNNER_{item.name.upper()}"][2]

    if isinstance(item.default, bool):
        assert said == f"`{item.default}`" or said == str(item.default)
    elif isinstance(item.default, int | float):
        number, _, unit = said.partition(" ")
        assert float(number) * {"": 1, "MiB": 1 << 20}[unit] == item.default
    elif isinstance(item.default, str):
        assert said == item.default
    else:
        assert item.default in (None, ()) or item.name == "redact_keys"


def test_every_public_name_is_documented() -> None:
    said = page("api.md")

    for name in flask_jobrunner.__all__:
        assert re.search(rf"`{name}[`(]", said), name
    for name in public(JobRunner):
        assert re.search(rf"(jobs\.|@jobs\.){name}\b", said), name
    for name in public(JobContext) | set(JobContext.__annotations__):
        assert re.search(rf"[`\s]{name}[`(\s]", said) or name == "late_calls", name
    for field in dataclasses.fields(Job):
        assert re.search(rf"[`\s]{field.name}[`\s]", said), field.name


def test_every_status_and_reason_is_documented() -> None:
    first_cells = {row[0] for row in rows(page("lifecycle.md"))}

    assert {str(status) for status in JobStatus} <= first_cells
    assert {str(reason) for reason in Reason} <= first_cells
    for word in [*BOOT_REFUSALS, *STOP_REASONS]:
        assert word in page("lifecycle.md") + page("glossary.md"), word


def test_the_diagram_shows_the_moves_there_are() -> None:
    arrows = re.findall(r"^ +(\w+) --> (\w+):", page("lifecycle.md"), re.MULTILINE)
    moves = {(str(start), str(end)) for start, end in MOVES if start is not None}

    assert set(arrows) == moves - NOT_DRAWN


def test_every_command_and_exit_code_is_documented() -> None:
    said, context = page("cli.md"), click.Context(commands)
    for name in commands.list_commands(context):
        assert f"flask jobs {name}" in said, name
        command = commands.get_command(context, name)
        assert command is not None
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        options = {option for each in shown for option in each.opts}
        assert [opt for opt in options if opt.startswith("--") and f"`{opt}" not in said] == []
    codes = {value for name, value in vars(ExitCode).items() if name.isupper()}
    assert {str(code) for code in codes} <= {row[0] for row in rows(said)}


def test_every_action_of_the_dashboard_is_documented() -> None:
    assert set(ACTION_WORDS) <= {row[0] for row in rows(page("dashboard.md"))}


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]

    assert [target for target in local if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", [ROOT / "README.md", DOCS / "lifecycle.md"])
def test_files_that_are_named_are_there(document: Path) -> None:
    package = ROOT / "flask_jobrunner"
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", document.read_text("utf-8")))
    places = {name for name in named if not (ROOT / name).exists()}

    assert [name for name in places if not (package / name).exists()] == []
