"""`--file` of a new job, and what `show` and `prune` say of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.host_acts import script


@pytest.fixture
def host_config(tmp_path: Path) -> dict[str, object]:
    return {"JOBRUNNER_FILES_DIR": str(tmp_path / "files"), "JOBRUNNER_FILE_RETENTION": 86400}


def run(app: Flask, *arguments: str) -> tuple[int, str]:
    result = app.test_cli_runner().invoke(args=["jobs", *arguments])
    return result.exit_code, result.output


def test_a_file_is_given_by_name_and_shown(
    host_app: Flask, host_jobs: JobRunner, tmp_path: Path
) -> None:
    source = tmp_path / "in.csv"
    source.write_text("a,b")
    code, said = run(
        host_app, "enqueue", "host.nothing", "--file", f"orders.csv={source}", "--json"
    )
    assert code == 0, said
    uuid = json.loads(said)["job"]["uuid"]

    assert "input   orders.csv  3 B  text/csv" in run(host_app, "show", uuid)[1]
    (file,) = json.loads(run(host_app, "show", uuid, "--json")[1])["files"]
    assert (file["name"], file["kind"], file["size"]) == ("orders.csv", "input", 3)
    assert "path" not in file


@pytest.mark.parametrize("given", [["orders.csv"], ["=x"], ["a=/nowhere"], ["a=x", "a=y"]])
def test_what_is_no_file_makes_no_job(
    host_app: Flask, host_jobs: JobRunner, given: list[str]
) -> None:
    options = [option for one in given for option in ("--file", one)]

    assert run(host_app, "enqueue", "host.nothing", *options)[0] == 2
    assert host_jobs.find().jobs == []


def test_prune_counts_files(host_app: Flask, host_jobs: JobRunner) -> None:
    result = host_jobs.run_inline("host.script", script(("publish", "out", "text")))
    assert result.ok, result

    assert "and 1 file (" in run(host_app, "prune", "--files", "0.000001", "--dry-run")[1]
    assert "Removed 0 jobs and 0 lines (files past their expiry)." in run(host_app, "prune")[1]
    assert "and 1 file (" in run(host_app, "prune", "--files", "0.000001")[1]
    assert host_jobs.status(result.job.uuid).artifacts[0].expired_at is not None  # type: ignore[union-attr]
