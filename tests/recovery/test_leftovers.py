"""Before a verdict of death on this host, what the dead process left behind is ended."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_jobrunner import job_finished
from flask_jobrunner.protocol.identity import of_pid, read_stat
from flask_jobrunner.recovery.settle import settle_row
from flask_jobrunner.runtime import Runtime
from tests.helpers import stores
from tests.helpers.hosts import HostEnvironment
from tests.helpers.waiting import eventually

LEADER = """
import os, subprocess, sys
left = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
print(left.pid, flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.fixture
def runtime(host_app: Flask, host_environment: HostEnvironment) -> Runtime:
    """The host application's runtime."""
    found = host_app.extensions["jobrunner"]
    assert isinstance(found, Runtime)
    return found


def leader_with_a_leftover() -> tuple[subprocess.Popen[str], int]:
    """A process that leads a session of its own, and a child of it in its group."""
    leader = subprocess.Popen(
        [sys.executable, "-c", LEADER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert leader.stdout is not None
    return leader, int(leader.stdout.readline())


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    stat = read_stat(pid)
    return stat is not None and stat[0] not in "ZX"


def test_a_program_of_a_dead_job_is_ended_before_the_verdict(runtime: Runtime) -> None:
    """A requeue must not run beside it."""
    leader, left = leader_with_a_leftover()
    claim = stores.start(runtime, worker=of_pid(leader.pid))
    leader.communicate("")
    assert lives(left)

    settled = settle_row(runtime, claim.fence.job_id)

    assert settled is not None
    assert (settled.job.status, settled.job.error_reason_code) == ("interrupted", "owner_gone")
    eventually(lambda: not lives(left), message="the leftover still lives")
    evidence = runtime.events.of(claim.fence.job_id)[-1].evidence
    assert evidence is not None
    assert evidence["leftovers_ended"] == 1


@pytest.mark.parametrize(
    "change", [{"boot": "another-boot"}, {"pid_ns": "pid:[1]"}, {"ticks": 1}], ids=str
)
def test_a_number_that_means_nothing_here_ends_nobody(
    runtime: Runtime, change: dict[str, Any]
) -> None:
    """Another boot, another namespace, a number that was given away again: a bystander lives."""
    leader, left = leader_with_a_leftover()
    try:
        worker = dataclasses.replace(of_pid(leader.pid), **change)
        claim = stores.start(runtime, worker=worker)
        stores.change(runtime, claim.fence.job_id, lease_until=1)

        settle_row(runtime, claim.fence.job_id)

        assert lives(left)
        assert lives(leader.pid)
    finally:
        leader.kill()
        leader.communicate()
        subprocess.run(["kill", str(left)], check=False)


@pytest.mark.parametrize(("method", "heard"), [("GET", 0), ("HEAD", 0), ("POST", 1)])
def test_who_only_looks_causes_nothing_but_the_truth(
    runtime: Runtime, host_app: Flask, tmp_path: Path, method: str, heard: int
) -> None:
    """The row is settled from a page as well; `job_finished` is sent from acts only."""
    dead = dataclasses.replace(of_pid(2**22 - 1), ticks=1)
    claim = stores.start(runtime, worker=dead)
    receivers = list[Any]()

    def listening(_app: Flask, job: Any) -> None:
        receivers.append(job)

    with (
        job_finished.connected_to(listening, host_app),
        host_app.test_request_context(method=method),
    ):
        settled = settle_row(runtime, claim.fence.job_id)

    assert settled is not None
    assert settled.job.status == "interrupted"
    assert len(receivers) == heard
