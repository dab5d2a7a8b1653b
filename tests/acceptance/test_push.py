"""A pushed job from its start to its end: the promises that an application builds on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_jobrunner import Job, JobRunner
from tests.helpers.hosts import HostEnvironment, end_processes
from tests.helpers.waiting import eventually
from tests.host_acts import script

SMOKE = {"seconds": 8, "interval_ms": 500}
STARTER = Path(__file__).with_name("starter.py")


@pytest.fixture
def demo_jobs(
    host_environment: HostEnvironment,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[JobRunner]:
    """The demo's `jobs`, in its app context, on each database."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("DEMO_INSTANCE", str(tmp_path / "demo"))
    from demo_app import create_app
    from demo_app.extensions import db, jobs

    app = create_app()
    with app.app_context():
        db.create_all()
        yield jobs
        end_processes(host_environment.mark)
        db.session.remove()
        db.engine.dispose()


def lines_of(jobs: JobRunner, job: Job) -> list[dict[str, Any]]:
    """The whole log."""
    return [line.to_dict() for line in jobs.status(job.uuid, after_seq=0, limit=1000).logs]


def test_the_smoke_job(demo_jobs: JobRunner) -> None:
    first = demo_jobs.start("demo.smoke", SMOKE, lock_key="smoke")
    second = demo_jobs.start("demo.smoke", SMOKE, lock_key="smoke")
    parallel = [
        demo_jobs.start("demo.smoke", SMOKE, lock_key=key, wait=False) for key in ("", "  ", None)
    ]
    long = demo_jobs.start("demo.smoke", {"seconds": 120, "interval_ms": 500}).job

    assert first.status == "started"
    assert second.status == "already_active"
    assert (second.job.uuid, second.job.status) == (first.job.uuid, "running")
    assert [result.status for result in parallel] == ["launching"] * 3

    _cancel_after_some_steps(demo_jobs, long)
    for result in (first, *parallel):
        _ran_sixteen_steps(demo_jobs, demo_jobs.wait(result.job.uuid, 60))
    ended = demo_jobs.get_many([result.job.uuid for result in parallel]).values()
    begun = [job.started_at for job in ended if job.started_at is not None]
    assert max(begun) < min(job.finished_at for job in ended if job.finished_at is not None)


def _ran_sixteen_steps(jobs: JobRunner, job: Job) -> None:
    lines = lines_of(jobs, job)
    steps = [line["message"] for line in lines if line["stream"] == "stdout"]

    assert job.status == "succeeded"
    assert len(lines) == 20
    assert [line["seq"] for line in lines] == list(range(1, 21))
    assert steps == [f"Step {number} of 16" for number in range(1, 17)]
    assert (job.current_step_key, job.step_index, job.step_total) == ("done", 16, 16)
    assert (job.progress_done, job.progress_total) == (16, 16)
    assert jobs.status(job.uuid).result["completed_steps"] == 16


def _cancel_after_some_steps(jobs: JobRunner, job: Job) -> None:
    eventually(lambda: len(lines_of(jobs, job)) >= 4, timeout=60)
    asked = jobs.cancel(job.uuid)
    ended = jobs.wait(job.uuid, 20)
    messages = [(line["level"], line["message"]) for line in lines_of(jobs, job)]
    done = jobs.status(job.uuid).result["completed_steps"]

    assert (asked.previous_status, asked.new_status) == ("running", "cancel_requested")
    assert ended.status == "cancelled"
    assert ended.finished_at is not None
    assert 0 < done < 20
    assert messages[-2] == ("warning", f"Asked to stop; {done} of 240 steps are done")
    assert messages[-1] == ("info", "Cancelled")


@pytest.mark.slow
def test_fifty_starts_of_one_lock_key_make_one_job(
    host_jobs: JobRunner, host_environment: HostEnvironment, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    argv = [sys.executable, str(STARTER), "race", str(go), "the key", "10"]
    processes = [
        subprocess.Popen(
            argv, stdout=subprocess.PIPE, text=True, env=dict(host_environment.environ)
        )
        for _ in range(5)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    go.touch()
    answers = [answer for process in processes for answer in json.loads(process.communicate()[0])]
    jobs = host_jobs.find().jobs
    go.with_name("go.over").touch()

    assert len(answers) == 50
    statuses = sorted(answer["status"] for answer in answers)
    assert statuses == ["already_active"] * 49 + ["started"]
    assert len(jobs) == 1
    assert {answer["uuid"] for answer in answers} == {jobs[0].uuid}
    assert host_jobs.wait(jobs[0].uuid, 30).status == "succeeded"
    assert len(host_jobs.find().jobs) == 1


@pytest.mark.slow
def test_keys_that_a_database_may_take_for_one_are_different(
    host_jobs: JobRunner, host_app: Flask, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    keys = ["A", "a", "A ", "\u00e4", "a\u0308", "A\t"]

    def start(key: str) -> str:
        with host_app.app_context():
            payload = script(("wait_for_file", str(go)))
            return host_jobs.start("host.script", payload, lock_key=key).status

    with ThreadPoolExecutor(len(keys)) as pool:
        first = list(pool.map(start, keys))
        again = list(pool.map(start, keys))
    held = [host_jobs.find(lock_key=key).jobs[0].lock_key for key in keys]
    go.touch()

    assert first == ["started"] * len(keys)
    assert again == ["already_active"] * len(keys)
    assert held == keys
    for job in host_jobs.find().jobs:
        assert host_jobs.wait(job.uuid, 30).status == "succeeded"


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_handler_that_holds_sqlites_only_write_lock_for_long(host_jobs: JobRunner) -> None:
    started = host_jobs.start("host.script", script(("hold_write", 20, 40), ("return", "held")))
    ended = host_jobs.wait(started.job.uuid, 90)
    lines = lines_of(host_jobs, ended)
    held = [line["message"] for line in lines if line["message"].startswith("holding ")]

    assert ended.status == "succeeded", ended
    assert host_jobs.status(ended.uuid).result == "held"
    assert held == [f"holding {number}" for number in range(1, 41)]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert (ended.progress_done, ended.progress_total) == (40, 40)


@pytest.mark.slow
def test_a_c_function_that_prints_much_while_no_thread_can_run(host_jobs: JobRunner) -> None:
    acts = script(("c_write_holding_gil", 200_000), ("print", "after it"))
    ended = host_jobs.wait(host_jobs.start("host.script", acts).job.uuid, 60)
    printed = [line for line in _all_lines(host_jobs, ended) if line["stream"] == "stdout"]

    assert ended.status == "succeeded"
    assert sum(line["message"].count("x") for line in printed) == 2000 * 99
    assert printed[-1]["message"] == "after it"


def _all_lines(jobs: JobRunner, job: Job) -> list[dict[str, Any]]:
    lines, after = list[dict[str, Any]](), 0
    while found := jobs.status(job.uuid, after_seq=after, limit=1000).logs:
        lines += [line.to_dict() for line in found]
        after = found[-1].seq
    return lines
