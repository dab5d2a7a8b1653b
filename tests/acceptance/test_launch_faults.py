"""What can go wrong between a start and a handler: the exact status and reason of each."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from flask import current_app

from flask_jobrunner import Job, JobRunner
from tests import host_app as host
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import processes_with, zombies_of
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow

SLOW_MACHINE = 3
"""How many times as long as promised a machine may take that runs everything else meanwhile."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and what becomes of the job."""

    status: str
    reason: str | None
    told: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    job_type: str = "host.nothing"
    payload: dict[str, Any] | None = None


FAILED, LAUNCH = "failed", "launch_failed"
FAULTS = {
    "no command": Fault(FAILED, LAUNCH, "No such file", {"JOBRUNNER_COMMAND": ["no-such-program"]}),
    "a command that ends": Fault(FAILED, LAUNCH, "exited 1", {"JOBRUNNER_COMMAND": ["false"]}),
    "no such app": Fault(FAILED, LAUNCH, "no_such_app", {"JOBRUNNER_APP": "no_such_app:create"}),
    "factory raises": Fault(FAILED, LAUNCH, "broken on purpose", {"HOST_FACTORY": "raise"}),
    "factory starts a job": Fault(FAILED, LAUNCH, "would never end", {"HOST_FACTORY": "start"}),
    "import error": Fault(FAILED, LAUNCH, "no_such_module_anywhere", {"HOST_FACTORY": "import"}),
    "sys.exit": Fault(FAILED, LAUNCH, "SystemExit", {"HOST_FACTORY": "exit"}),
    "killed before the claim": Fault(FAILED, LAUNCH, "signal 9", {"HOST_FACTORY": "kill"}),
    "hangs": Fault(
        FAILED, "launch_timeout", "claim window",
        {"HOST_FACTORY": "hang", "JOBRUNNER_CLAIM_WINDOW": 4},
    ),
    "killed after the claim": Fault(
        "interrupted", "not_started", "signal 9", {}, "host.validated", {"count": host.DIES}
    ),
    "garbage on the output": Fault("succeeded", None, "", {"HOST_FACTORY": "chatter"}),
    "closed descriptors": Fault("succeeded", None, "", {"HOST_FACTORY": "close"}),
    "no ack pipe": Fault(
        "succeeded", None, "", {"HOST_FACTORY": "close ack", "JOBRUNNER_CLAIM_WINDOW": 8},
        "host.script", script(("pause", 10)),
    ),
}  # fmt: skip


@contextlib.contextmanager
def launched(fault: Fault, lock_key: str, patch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job that is started by an application which is configured like that."""
    settings = json.loads(os.environ[host.CONFIG]) | fault.config
    with patch.context() as only_here:
        only_here.setenv(host.CONFIG, json.dumps(settings))
        app = host.create_app()
        with app.app_context():
            started = host.jobs.start(fault.job_type, fault.payload, lock_key=lock_key, wait=False)
    yield started.job
    with app.app_context():
        host.db.engine.dispose()


def test_each_launch_fault_ends_as_it_should(
    host_jobs: JobRunner, host_environment: HostEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as stack:
        jobs = {
            name: stack.enter_context(launched(fault, name, monkeypatch))
            for name, fault in FAULTS.items()
        }
        ended = {name: host_jobs.wait(job.uuid, 90) for name, job in jobs.items()}
    for name, fault in FAULTS.items():
        job = ended[name]

        assert (name, job.status, job.error_reason_code) == (name, fault.status, fault.reason), job
        assert fault.told in (job.error_message or ""), (name, job.error_message)
        assert "hunter2" not in (job.error_message or "")
        assert host_jobs.find(lock_key=name).jobs == [], name
        _was_told_at_once(name, job)
    eventually(lambda: processes_with(host_environment.mark) == [], timeout=60)
    eventually(lambda: zombies_of(os.getpid()) == [])


def _was_told_at_once(name: str, job: Job) -> None:
    """Within two seconds of the end of its process, whose parent measured how long it ran."""
    evidence = _evidence(job)
    if job.finished_at is None or evidence is None:
        return
    rest = job.finished_at - job.created_at - timedelta(seconds=float(evidence["wall"]))
    assert rest < timedelta(seconds=2 * SLOW_MACHINE), (name, rest)


def _evidence(job: Job) -> dict[str, Any] | None:
    events = current_app.extensions["jobrunner"].events.of(job.id)
    return next((event.evidence for event in events if event.to_status == job.status), None)
