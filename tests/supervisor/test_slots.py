"""Which running jobs take up slots although they are nobody's children here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.model.records import NOBODY, Identity, Job
from flask_jobrunner.protocol.envelope import hash_credential
from flask_jobrunner.protocol.identity import of_pid, this_process
from flask_jobrunner.repositories.dispatch import Wanted
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.supervisor.slots import orphans
from tests.helpers.stores import CREDENTIAL, envelope


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def dead() -> Identity:
    """A process of this machine that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        return of_pid(process.pid)


@pytest.fixture
def other() -> Iterator[Identity]:
    """Another process that lives."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield of_pid(process.pid)


def runs(app: Flask, job: Job, worker: Identity, parent: Identity) -> None:
    runtime: Runtime = app.extensions["jobrunner"]
    (one,) = [found for found in runtime.dispatch.candidates(Wanted()) if found.id == job.id]
    assert runtime.dispatch.reserve(
        one, supervisor="s", credential_hash=hash_credential(CREDENTIAL), claim_window=30
    )
    opened = envelope(job, claim_mode="trusted")
    assert runtime.ownership.claim(opened, worker=worker, parent=parent, token=f"t{job.id}")


def test_only_living_jobs_of_dead_supervisors_count(
    host_app: Flask, host_jobs: JobRunner, dead: Identity, other: Identity
) -> None:
    runtime: Runtime = host_app.extensions["jobrunner"]
    me = this_process()
    cases = [
        (me, dead, 1),
        (me, other, 1),
        (me, me, 1),
        (dead, dead, 1),
        (other, dead, 2),
        (replace(other, host="elsewhere"), dead, 2),
        (other, replace(dead, host="elsewhere"), 2),
        (other, NOBODY, 2),
    ]
    for worker, parent, expected in cases:
        runs(host_app, host_jobs.enqueue("host.nothing").job, worker, parent)
        assert orphans(runtime) == expected
