"""What the doctor says of the folder for files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import host_app as host
from tests.helpers.commands import Commands


def told(commands: Commands, folder: Path) -> list[tuple[str, str]]:
    """(level, message) of what is found with this setting."""
    settings = json.loads(os.environ[host.CONFIG]) | {"JOBRUNNER_FILES_DIR": str(folder)}
    answer = commands.process("doctor", "--json", environ={host.CONFIG: json.dumps(settings)})
    found: list[dict[str, Any]] = answer.json()["findings"]
    assert all(one["advice"] for one in found if one["check"] == "Files" and one["level"] != "ok")
    return [(one["level"], one["message"]) for one in found if one["check"] == "Files"]


def test_without_the_setting_nothing_is_said(commands: Commands) -> None:
    found = commands.process("doctor", "--json").json()["findings"]

    assert "Files" not in [one["check"] for one in found]


def test_a_folder_of_ones_own_is_fine_and_is_made_when_it_is_needed(
    commands: Commands, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "files"
    assert told(commands, folder) == [("ok", str(folder))]
    assert not folder.exists()
    folder.mkdir(parents=True, mode=0o700)
    assert told(commands, folder) == [("ok", str(folder))]
    folder.chmod(0o2770)
    assert told(commands, folder) == [("ok", str(folder))]


def test_one_that_others_can_read(commands: Commands, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir(mode=0o755)

    ((level, message),) = told(commands, folder)
    assert level == "warning"
    assert "open to every user" in message


def test_what_is_no_folder_and_what_cannot_be_made(commands: Commands, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")

    assert told(commands, file) == [("problem", f"{file} is not a folder.")]
    ((level, message),) = told(commands, file / "below")
    assert level == "problem"
    assert "cannot be" in message


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_one_that_cannot_be_written_to(commands: Commands, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir(mode=0o500)

    assert told(commands, folder) == [("problem", f"{folder} cannot be written to.")]


@pytest.mark.parametrize("through_a_link", [False, True])
def test_one_that_the_application_serves(
    commands: Commands, tmp_path: Path, through_a_link: bool
) -> None:
    static = Path(host.__file__).parent / "static"
    folder = static / "files"
    if through_a_link:
        folder = tmp_path / "link"
        folder.symlink_to(static / "files")

    levels = dict(told(commands, folder))
    assert levels["problem"].startswith(f"{folder} is within {static}")
