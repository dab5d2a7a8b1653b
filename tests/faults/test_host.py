"""The machine around a job: its terminal, its folders, its code."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import Runtime
from tests.helpers.commands import Terminal
from tests.helpers.hosts import HostEnvironment
from tests.helpers.waiting import eventually
from tests.host_acts import script


@pytest.fixture
def host_config(tmp_path: Path) -> dict[str, object]:
    return {"JOBRUNNER_HANDLERS": {"faults.import_late": "tests.faults.acts:import_late"}}


def test_a_job_outlives_the_terminal_it_was_started_from(
    host_jobs: JobRunner, host_environment: HostEnvironment, tmp_path: Path
) -> None:
    go, ledger = tmp_path / "go", tmp_path / "ledger"
    payload = json.dumps(script(("wait_for_file", str(go)), ("return", 1), ledger=ledger))
    argv = host_environment.command("jobs", "start", "host.script", "--payload", payload, "--wait")
    terminal = Terminal.start(argv, {**host_environment.environ})
    eventually(ledger.exists, timeout=60, message=terminal.read)
    # Whoever still reads there gets SIGHUP, as when a connection by SSH breaks.
    terminal.hang_up()
    go.touch()

    (job,) = host_jobs.find().jobs
    job = host_jobs.wait(job.uuid, 60)
    assert (job.status, job.stop_reason) == ("succeeded", None)
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["start", "end"]


def test_a_module_that_is_gone_by_now_fails_the_job(
    host_jobs: JobRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy replaced the code under a running job."""
    module = tmp_path / "module_of_the_old_release.py"
    module.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    go = tmp_path / "go"
    payload = {"go": str(go), "module": module.stem}
    started = host_jobs.start("faults.import_late", payload, lock_key="k")
    assert started.status == "started"
    module.unlink()
    go.touch()

    job = host_jobs.wait(started.job.uuid, 60)
    assert (job.status, job.error_reason_code) == ("failed", "handler_raised")
    assert module.stem in (job.error_message or "")
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"


class TestNoRoomForReports:
    @pytest.fixture
    def host_config(self, tmp_path: Path) -> dict[str, object]:
        (tmp_path / "file").touch()
        return {"JOBRUNNER_SPOOL_DIR": str(tmp_path / "file" / "spool")}

    @pytest.mark.parametrize(
        ("act", "status", "reason"),
        [
            (("return", 1), "succeeded", None),
            (("kill", int(signal.SIGKILL)), "interrupted", "process_died"),
        ],
    )
    def test_jobs_end_as_ever(
        self,
        host_app: Flask,
        host_jobs: JobRunner,
        act: tuple[object, ...],
        status: str,
        reason: str | None,
    ) -> None:
        started = host_jobs.start("host.script", script(act), lock_key="k")
        job = host_jobs.wait(started.job.uuid, 60)

        assert (job.status, job.error_reason_code) == (status, reason)
        runtime: Runtime = host_app.extensions["jobrunner"]
        assert runtime.attempts.of(job.id)[0].end_status == status
        assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"
