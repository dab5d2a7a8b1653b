"""Handlers that misbehave, in real processes: the outcome is right, and the process goes."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.model.results import StatusResult
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import processes_with
from tests.helpers.waiting import eventually
from tests.host_acts import script

ROUGH = "tests.child.rough"


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One database is enough: these are about the process."""
    return sqlite_url


@pytest.fixture
def host_config() -> dict[str, object]:
    names = """two_arguments WithoutRun WithArguments fork fork_that_raises daemonise pool executor
        endless_thread late_thread hanging_hook exit_hook memory streams surroundings patches
        hold_gil flood program missing"""
    handlers = {f"rough.{name}": f"{ROUGH}:{name}" for name in names.split()}
    handlers["rough.nowhere"] = "tests.child.nowhere:handler"
    return {
        "JOBRUNNER_HANDLERS": handlers,
        "JOBRUNNER_HEARTBEAT": 0.5,
        "JOBRUNNER_LEASE": 2,
        "JOBRUNNER_LOG_MAX_BYTES": 4 << 20,
    }


class Ran:
    """One job from start to end."""

    def __init__(self, jobs: JobRunner, job_type: str, payload: dict[str, object] | None) -> None:
        started = jobs.start(job_type, payload)
        assert started.job is not None
        began = time.monotonic()
        self.job: Job = jobs.wait(started.job.uuid, 60)
        self.seconds = time.monotonic() - began
        assert self.job.is_terminal, self.job
        self.status: StatusResult = jobs.status(self.job.uuid, after_seq=0, limit=1000)

    @property
    def messages(self) -> list[str]:
        return [line.message for line in self.status.logs]

    @property
    def end(self) -> tuple[str, str | None]:
        return self.job.status, self.job.error_reason_code


def run(jobs: JobRunner, job_type: str, **payload: object) -> Ran:
    return Ran(jobs, job_type, payload or None)


@pytest.mark.parametrize(
    ("job_type", "reason", "text"),
    [
        ("rough.nowhere", "handler_not_importable", "tests.child.nowhere"),
        ("rough.missing", "handler_not_importable", "missing"),
        ("rough.two_arguments", "handler_contract_mismatch", "one argument"),
        ("rough.WithoutRun", "handler_contract_mismatch", "no run(ctx) method"),
        ("rough.WithArguments", "handler_contract_mismatch", "without arguments"),
        ("host.coroutine", "handler_contract_mismatch", "async function"),
    ],
)
def test_what_cannot_be_run(host_jobs: JobRunner, job_type: str, reason: str, text: str) -> None:
    ran = run(host_jobs, job_type)
    assert ran.end == ("failed", reason)
    assert text in (ran.job.error_message or "")
    errors = [line for line in ran.status.logs[:-1] if line.level == "error"]
    assert errors[0].context is not None
    assert errors[0].context["error_reason_code"] == reason


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("ValueError", "handler_raised"),
        ("KeyboardInterrupt", "handler_raised"),
        ("GeneratorExit", "handler_raised"),
        ("OwnBaseException", "handler_raised"),
        ("JobCancelled", "cancelled_unasked"),
    ],
)
def test_what_is_raised(host_app: Flask, host_jobs: JobRunner, kind: str, reason: str) -> None:
    ran = run(host_jobs, "host.script", **script(("raise", kind, "on purpose")))
    assert ran.end == ("failed", reason)
    attempt = host_app.extensions["jobrunner"].attempts.of(ran.job.id)[0]
    assert attempt.error_class is not None
    assert attempt.error_class.endswith(kind)
    assert "_raise" in (attempt.traceback or "")
    assert "flask_jobrunner/child" not in (attempt.traceback or "")


@pytest.mark.parametrize("code", [0, 3, None, "text"])
def test_an_exit_is_no_success(host_jobs: JobRunner, code: object) -> None:
    assert run(host_jobs, "host.script", **script(("exit", code))).end == (
        "failed",
        "handler_exited",
    )


@pytest.mark.parametrize("code", [0, 3])
def test_an_exit_behind_our_back_is_an_interruption(host_jobs: JobRunner, code: int) -> None:
    ran = run(host_jobs, "host.script", **script(("print", "last words"), ("os_exit", code)))
    assert ran.end == ("interrupted", "process_died")
    assert "last words" in ran.messages
    assert f"xited {code} without a result" in (ran.job.error_message or "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_crash_keeps_what_was_written(host_jobs: JobRunner, number: int) -> None:
    acts = script(("say", "warning", "a record"), ("print", "last", "stdout", ""), ("kill", number))
    ran = run(host_jobs, "host.script", **acts)
    assert ran.end == ("interrupted", "process_died")
    assert ran.messages[0].startswith("Started")
    assert "a record" in ran.messages
    assert ran.status.logs[1].level == "warning"
    assert f"signal {int(number)}" in (ran.job.error_message or "")


def test_a_segmentation_fault_leaves_its_traceback(host_jobs: JobRunner) -> None:
    ran = run(host_jobs, "host.script", **script(("segfault",)))
    assert ran.end == ("interrupted", "process_died")
    assert any("Segmentation fault" in message for message in ran.messages)


def test_only_the_owner_ends_the_job_after_a_fork(host_jobs: JobRunner) -> None:
    ran = run(host_jobs, "rough.fork")
    assert ran.job.status == "succeeded"
    assert ran.status.result == "the owner's"
    assert sorted(ran.messages[1:3]) == ["child", "parent"]
    assert (ran.job.progress_done, ran.messages.count("Succeeded")) == (1, 1)


def test_a_fork_that_raises_is_not_the_jobs_end(host_jobs: JobRunner) -> None:
    ran = run(host_jobs, "rough.fork_that_raises")
    assert (ran.job.status, ran.status.result) == ("succeeded", "waited True")
    assert any("RuntimeError: in the fork" in message for message in ran.messages)


def test_a_handler_that_makes_itself_a_daemon(host_jobs: JobRunner) -> None:
    ran = run(host_jobs, "rough.daemonise")
    assert ran.end == ("interrupted", "process_died")
    assert ran.job.progress_done is None


def test_a_pool_left_open(host_jobs: JobRunner, host_environment: HostEnvironment) -> None:
    ran = run(host_jobs, "rough.pool")
    assert (ran.job.status, ran.status.result) == ("succeeded", [2, 4])
    assert ran.messages.count("from a pool worker") == 2
    assert {line.level for line in ran.status.logs if "pool worker" in line.message} == {"warning"}
    gone(host_environment)


def gone(environment: HostEnvironment, seconds: float = 15) -> None:
    """No process of this test is left."""
    mark = environment.mark
    eventually(
        lambda: not processes_with(mark),
        timeout=seconds,
        message=lambda: f"{processes_with(mark)}",
    )


@pytest.mark.parametrize("name", ["executor", "endless_thread", "hanging_hook", "program"])
def test_what_is_left_behind_does_not_keep_the_process(
    host_jobs: JobRunner, host_environment: HostEnvironment, name: str
) -> None:
    ran = run(host_jobs, f"rough.{name}")
    assert ran.job.status == "succeeded"
    assert ran.seconds < 3
    if name != "program":
        gone(host_environment)


def test_an_executor_left_open_costs_no_time(
    host_jobs: JobRunner, host_environment: HostEnvironment
) -> None:
    run(host_jobs, "rough.executor")
    gone(host_environment, 2)


def test_exit_hooks_run(host_jobs: JobRunner, tmp_path: Path) -> None:
    path = tmp_path / "hooked"
    assert run(host_jobs, "rough.exit_hook", path=str(path)).job.status == "succeeded"
    eventually(path.exists)


def test_calls_after_the_end_have_no_effect(
    host_jobs: JobRunner, host_environment: HostEnvironment
) -> None:
    ran = run(host_jobs, "rough.late_thread")
    gone(host_environment)
    job = host_jobs.get(ran.job.uuid)
    assert job is not None
    assert job.status == "succeeded"
    late = [line for line in host_jobs.status(job.uuid).logs if line.message == "late"]
    assert len(late) <= 5


def test_out_of_memory(host_jobs: JobRunner) -> None:
    ran = run(host_jobs, "rough.memory")
    assert ran.end == ("failed", "handler_raised")
    assert ran.job.error_class == "MemoryError"
    assert ran.messages[-2:] == [
        "The handler ran out of memory.",
        "Failed (handler_raised): The handler ran out of memory.",
    ]


def test_streams_replaced_and_closed(host_jobs: JobRunner) -> None:
    ran = run(host_jobs, "rough.streams")
    assert ran.job.status == "succeeded"
    assert "half \\ud800 a character" in ran.messages


def test_descriptors_closed(host_jobs: JobRunner) -> None:
    acts = script(("print", "a"), ("close_descriptors",), ("print", "b"), ("say", "info", "c"))
    ran = run(host_jobs, "host.script", **acts)
    assert ran.job.status == "succeeded"
    assert [message for message in ran.messages if len(message) == 1] == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["surroundings", "patches"])
def test_what_a_process_has_one_of_is_changed(host_jobs: JobRunner, name: str) -> None:
    ran = run(host_jobs, f"rough.{name}")
    assert ran.end == ("succeeded", None)
    assert ran.status.result == 1


def test_patched_modules_keep_neither_lease_nor_log(host_jobs: JobRunner) -> None:
    ran = run(host_jobs, "rough.patches")
    assert [m for m in ran.messages if m.startswith("print")] == [f"print {n}" for n in range(12)]
    assert ran.messages.count("still here") == 12
    times = [line.created_at for line in ran.status.logs]
    assert times[-1] > times[1]


def test_a_flood_is_bounded_and_explicit(host_app: Flask, host_jobs: JobRunner) -> None:
    ran = run(host_jobs, "rough.flood", lines=100_000)
    assert ran.job.status == "succeeded"
    last = host_jobs.status(ran.job.uuid, limit=10)
    assert last.logs[-1].message == "Succeeded"
    assert "JOBRUNNER_LOG_MAX_BYTES" in last.logs[-2].message
    assert [line.seq for line in last.logs] == list(
        range(last.last_log_seq - 9, last.last_log_seq + 1)
    )
    assert "".join(ran.messages[1:185]) == "x" * 3_000_000
    assert "\x1b[31mred\x1b[0m \u2028 </script>" in ran.messages
    assert ran.job.progress_done == 99_999
