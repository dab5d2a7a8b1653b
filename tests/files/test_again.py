"""A job that runs again: it is given what the first one was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from flask_jobrunner import InvalidPayload
from flask_jobrunner.caller.again import again
from flask_jobrunner.caller.enqueue import enqueue
from flask_jobrunner.model.records import Job
from flask_jobrunner.runtime import Runtime
from tests.files.test_inputs import TYPE, bytes_of, on_disk

FILES = {"a.csv": b"1,2\n", "b": b""}


def run_again(runtime: Runtime, job: Job) -> Job:
    """The new job."""
    owned = runtime.jobs.owned(job.id)
    assert owned is not None
    made = again(runtime, owned).job
    assert made is not None
    return made


def test_another_job_has_copies_of_the_files(runtime: Runtime, root: Path) -> None:
    first = enqueue(runtime, TYPE, files=FILES).job

    second = run_again(runtime, first)

    assert second.uuid != first.uuid
    assert bytes_of(runtime, second) == bytes_of(runtime, first) == FILES
    assert len(on_disk(root)) == 4


def test_without_files_no_folder_for_files_is_needed(runtime: Runtime) -> None:
    object.__setattr__(runtime.config, "files_dir", None)

    second = run_again(runtime, enqueue(runtime, TYPE).job)

    assert runtime.files.of(second.id) == []


def test_a_file_that_is_gone_is_named_before_there_is_a_job(runtime: Runtime, root: Path) -> None:
    first = enqueue(runtime, TYPE, files={"a.csv": b"1"}).job
    for file in on_disk(root):
        file.unlink()

    with pytest.raises(InvalidPayload, match=r"'a\.csv' .* not there any more"):
        run_again(runtime, first)

    assert runtime.jobs.owned(first.id + 1) is None
