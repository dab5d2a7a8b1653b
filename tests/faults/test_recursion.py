"""Handlers that recurse until something gives way, in real processes."""

from __future__ import annotations

import signal

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import Runtime
from tests.helpers.supervising import PATIENCE


@pytest.fixture
def host_config() -> dict[str, object]:
    names = ("in_python", "in_c")
    return {"JOBRUNNER_HANDLERS": {f"deep.{name}": f"tests.faults.deep:{name}" for name in names}}


def test_too_deep_for_python_is_a_failure_with_a_bounded_traceback(host_jobs: JobRunner) -> None:
    job = host_jobs.start("deep.in_python", lock_key="k").job

    done = host_jobs.wait(job.uuid, PATIENCE)
    assert (done.status, done.error_reason_code) == ("failed", "handler_raised")
    assert done.error_class == "RecursionError"
    assert host_jobs.find(lock_key="k").jobs == []


def test_too_deep_for_the_stack_is_a_death_by_signal(host_app: Flask, host_jobs: JobRunner) -> None:
    job = host_jobs.start("deep.in_c", lock_key="k").job

    done = host_jobs.wait(job.uuid, PATIENCE)
    assert (done.status, done.error_reason_code) == ("interrupted", "process_died")
    runtime: Runtime = host_app.extensions["jobrunner"]
    assert runtime.attempts.of(job.id)[0].signal == signal.SIGSEGV
    told = [line.message for line in host_jobs.status(job.uuid, after_seq=0, limit=1000).logs]
    assert any("Segmentation fault" in message for message in told)
    assert any("in down" in message for message in told)
    assert host_jobs.find(lock_key="k").jobs == []
