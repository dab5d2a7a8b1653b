"""A supervisor that is drained and resumed while it runs, as its page asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.helpers.commands import Commands
from tests.helpers.supervising import QUICK, Supervisors, ended, in_status
from tests.helpers.waiting import eventually
from tests.host_acts import script

OURS = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def host_config() -> dict[str, object]:
    return dict(QUICK)


def ask(app: Flask, supervisor: str, **data: str) -> None:
    answer = app.test_client().post(
        f"/jobs/supervisors/{supervisor}/drain", headers=OURS, data=data
    )
    assert answer.status_code == 303


@pytest.mark.timeout(300)
def test_a_drained_supervisor_lets_its_job_go_on_takes_no_other_and_resumes(
    host_app: Flask, host_jobs: JobRunner, pull: Supervisors, commands: Commands, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    acts = script(("wait_for_file", str(go_on)), ("return", "all of it"), ledger=tmp_path / "l")
    first = host_jobs.enqueue("host.script", acts).job
    working = pull.work("--slots", 2)
    in_status(host_jobs, first, "running")
    (row,) = pull.runtime.supervisors.all()

    ask(host_app, row.uuid)
    assert working.tells("drained")["running"] == 1
    second = host_jobs.enqueue("host.nothing").job
    go_on.touch()
    (done,) = ended(host_jobs, first)
    assert (done.status, done.stop_reason) == ("succeeded", None)
    working.tells("ended")
    # It has seen many beats by now, each of which could have made it forget.
    seen = pull.runtime.supervisors.all()[0].heartbeat_at
    eventually(lambda: pull.runtime.supervisors.all()[0].heartbeat_at > seen, timeout=60)
    assert in_status(host_jobs, second, "queued").attempt == 1
    assert working.children() == []
    assert "takes no more jobs" in commands("doctor", "--json").out
    assert [one.drain_requested_at is None for one in pull.runtime.supervisors.all()] == [False]

    ask(host_app, row.uuid, resume="1")
    working.tells("resumed")
    assert ended(host_jobs, second)[0].status == "succeeded"
    working.stop()


@pytest.mark.timeout(300)
def test_a_drained_supervisor_ends_when_it_is_told_to(
    host_app: Flask, host_jobs: JobRunner, pull: Supervisors
) -> None:
    working = pull.work()
    (row,) = pull.runtime.supervisors.all()
    ask(host_app, row.uuid)
    working.tells("drained")

    working.stop()
    assert pull.runtime.drains.newest([row.uuid])[row.uuid].action == "shutdown"
    assert pull.runtime.supervisors.all() == []


@pytest.mark.timeout(300)
def test_a_burst_that_is_drained_has_nothing_left_to_take(
    host_app: Flask, host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    acts = script(("wait_for_file", str(go_on)), ledger=tmp_path / "l")
    first, second = (host_jobs.enqueue("host.script", acts).job for _ in range(2))
    working = pull.work("--burst")
    in_status(host_jobs, first, "running")
    ask(host_app, pull.runtime.supervisors.all()[0].uuid)
    working.tells("drained")

    go_on.touch()
    assert working.exit_code() == 0
    assert ended(host_jobs, first)[0].status == "succeeded"
    assert in_status(host_jobs, second, "queued").attempt == 1
