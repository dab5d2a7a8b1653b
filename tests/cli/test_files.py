"""`--file` of a new job, and what `show` and `prune` say of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import current_runtime
from tests.helpers.commands import Commands
from tests.host_acts import script


@pytest.fixture
def host_config(tmp_path: Path) -> dict[str, object]:
    return {"JOBRUNNER_FILES_DIR": str(tmp_path / "files"), "JOBRUNNER_FILE_RETENTION": 86400}


def test_a_file_is_given_by_name_and_shown(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    source = tmp_path / "in.csv"
    source.write_text("a,b")
    given = f"orders.csv={source}"
    uuid = commands("enqueue", "host.nothing", "--file", given, "--json").json()["job"]["uuid"]

    assert "input   orders.csv  3 B  text/csv" in commands("show", uuid).out
    (file,) = commands("show", uuid, "--json").json()["files"]
    assert (file["name"], file["kind"], file["size"]) == ("orders.csv", "input", 3)
    assert "path" not in file


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["orders.csv"], "'orders.csv' is not NAME=PATH"),
        (["=x"], "must be a name"),
        (["a=/nowhere"], "/nowhere cannot be read"),
        (["a=x", "a=y"], "'a' is given twice"),
    ],
)
def test_what_is_no_file_makes_no_job(
    commands: Commands, host_jobs: JobRunner, given: list[str], said: str
) -> None:
    options = [option for one in given for option in ("--file", one)]

    answer = commands("enqueue", "host.nothing", *options)
    assert answer.exit_code == 2
    assert said in answer.err
    assert host_jobs.find().jobs == []


def test_prune_counts_files(commands: Commands, host_jobs: JobRunner) -> None:
    result = host_jobs.run_inline("host.script", script(("publish", "out", "text")))
    assert result.ok, result
    runtime = current_runtime()
    aged = runtime.database.tables.files.update().values(created_at=0)
    runtime.database.run(lambda connection: connection.execute(aged).rowcount)

    assert "and 1 file (" in commands("prune", "--files", "1d", "--dry-run").out
    assert "Removed 0 jobs and 0 lines (files past their expiry)." in commands("prune").out
    assert "and 1 file (" in commands("prune", "--files", "1d").out
    assert host_jobs.status(result.job.uuid).artifacts[0].expired_at is not None  # type: ignore[union-attr]
