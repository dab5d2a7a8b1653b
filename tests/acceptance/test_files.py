"""Files from the start to the page, through real processes that are killed in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import current_runtime
from tests.helpers.waiting import eventually
from tests.host_acts import script


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that web server and jobs share."""
    return tmp_path / "files"


@pytest.fixture
def host_config(root: Path) -> dict[str, object]:
    return {"JOBRUNNER_FILES_DIR": str(root)}


def on_disk(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def test_a_process_reads_what_it_was_given_and_publishes(host_jobs: JobRunner, root: Path) -> None:
    acts = script(("print file", "in.txt"), ("publish", "out.txt", "made"))
    job = host_jobs.start("host.script", acts, files={"in.txt": "given ä".encode()}).job

    assert host_jobs.wait(job.uuid, 60).status == "succeeded"
    told = host_jobs.status(job.uuid)
    assert "given ä" in [line.message for line in told.logs]
    (artifact,) = told.artifacts
    assert (artifact.name, artifact.size, artifact.content_type) == ("out.txt", 4, "text/plain")
    client = current_runtime().app.test_client()
    with client.get(f"/jobs/{job.uuid}/artifacts/out.txt") as answer:
        assert answer.data == b"made"


def test_a_process_that_is_killed_while_it_writes_leaves_no_half(
    host_jobs: JobRunner, root: Path
) -> None:
    acts = script(("publish", "whole", "whole"), ("publish", "half", "half", "kill"))
    job = host_jobs.start("host.script", acts, files={"in": b"1"}).job

    assert host_jobs.wait(job.uuid, 60).status == "interrupted"
    assert [one.name for one in host_jobs.status(job.uuid).artifacts] == ["whole"]
    eventually(lambda: len(on_disk(root)) == 2, timeout=60, message=lambda: f"{on_disk(root)}")
    assert [name[:2] for name in on_disk(root)] == ["i1", "o1"]
