"""`flask jobs sweep`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from tests.helpers.commands import Commands
from tests.helpers.processes import is_running
from tests.helpers.waiting import eventually
from tests.host_acts import script


def test_nothing_to_do_is_said(commands: Commands) -> None:
    answer = commands("sweep")

    assert answer.exit_code == 0
    assert answer.out == "Looked at 0 active jobs: 0 ended.\n"


def test_a_job_whose_process_and_parent_were_killed_is_ended(
    commands: Commands, host_jobs: JobRunner, tmp_path: Path
) -> None:
    job = host_jobs.start("host.script", script(("wait_for_file", str(tmp_path / "go")))).job
    (attempt,) = commands("show", job.uuid, "--json").json()["attempts"]
    for who in ("parent", "worker"):
        os.kill(attempt[who]["pid"], signal.SIGKILL)
    eventually(lambda: not is_running(attempt["worker"]["pid"]))
    answer = commands.process("sweep")
    now = host_jobs.get(job.uuid)

    assert answer.exit_code == 0
    assert answer.out.splitlines()[0].split() == [job.uuid, "interrupted"]
    assert now is not None
    assert (now.status, now.error_reason_code) == ("interrupted", "owner_gone")


@pytest.mark.parametrize("host_config", [{"JOBRUNNER_CLAIM_WINDOW": 0.2}])
def test_json_tells_uuids_by_status(
    commands: Commands, host_jobs: JobRunner, host_config: object
) -> None:
    runtime = commands.app.extensions["jobrunner"]
    from flask_jobrunner.caller.prepare import prepare

    new = prepare(
        runtime, runtime.handlers.find("host.nothing"), None, credential_hash=None,
        claim_window=0.001, lock_key=None, title=None, owner=None, reference=None, actor=None,
    )  # fmt: skip
    runtime.jobs.add(new)
    answer = eventually(lambda: commands("sweep", "--json").json()["moved"])

    assert answer == {new.uuid: "failed"}
    now = host_jobs.get(new.uuid)
    assert now is not None
    assert now.error_reason_code == "never_launched"
