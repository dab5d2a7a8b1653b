"""Handlers that show no sign of life, in real processes: shown, stopped, and left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from flask_jobrunner import Job, JobRunner
from tests.helpers.commands import Commands
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = pytest.mark.slow
QUICK = {"JOBRUNNER_HEARTBEAT": 0.5, "JOBRUNNER_LEASE": 3, "JOBRUNNER_STALL_BUDGET": 1.5}
DEAF = ("ignore_signals",)


class Shown:
    """The default action."""

    @pytest.fixture
    def host_config(self) -> dict[str, object]:
        return {**QUICK}


class Stopped:
    """JOBRUNNER_STALL_ACTION = "stop"."""

    @pytest.fixture
    def host_config(self) -> dict[str, object]:
        return {**QUICK, "JOBRUNNER_STALL_ACTION": "stop", "JOBRUNNER_CANCEL_GRACE": 0.5}

    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        """One will do: what is tested is the process."""
        return sqlite_url


def messages(jobs: JobRunner, job: Job) -> list[str]:
    return [line.message for line in jobs.status(job.uuid, after_seq=0, limit=1000).logs]


def lines_about_silence(jobs: JobRunner, job: Job) -> list[str]:
    return [text for text in messages(jobs, job) if text.startswith("No progress and no output")]


class TestShown(Shown):
    def test_a_stall_is_shown_and_the_job_goes_on(
        self, commands: Commands, host_jobs: JobRunner, tmp_path: Path
    ) -> None:
        ledger, go = tmp_path / "ledger", tmp_path / "go"
        acts = script(("wait_for_file", str(go)), ("print", "back"), ("return", 1), ledger=ledger)
        job = host_jobs.start("host.script", acts, lock_key="k").job
        eventually(lambda: lines_about_silence(host_jobs, job), timeout=60)

        page = commands("show", job.uuid).out
        assert "No progress and no output since " in page
        now = host_jobs.get(job.uuid)
        assert now is not None
        assert (now.status, now.stop_reason, now.warning_count) == ("running", None, 1)

        go.touch()
        done = host_jobs.wait(job.uuid, 60)
        assert (done.status, done.error_reason_code, done.stop_reason) == ("succeeded", None, None)
        assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["start", "end"]
        assert len(lines_about_silence(host_jobs, job)) == 1
        assert "No progress and no output since " not in commands("show", job.uuid).out


class TestStopped(Stopped):
    def test_one_that_ignores_everything_is_ended(
        self, host_jobs: JobRunner, tmp_path: Path
    ) -> None:
        ledger = tmp_path / "ledger"
        acts = script(DEAF, ("pause", 600), ledger=ledger)
        job = host_jobs.start("host.script", acts, lock_key="k").job

        done = host_jobs.wait(job.uuid, 90)

        assert (done.status, done.error_reason_code) == ("failed", "stalled")
        assert done.stop_reason == "stall"
        assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["start"]
        assert host_jobs.start("host.nothing", lock_key="k").status == "started"

    def test_one_that_looks_whether_to_stop_ends_by_itself(self, host_jobs: JobRunner) -> None:
        acts = script(("wait_for_cancel",), ("raise_if_cancelled",))
        job = host_jobs.start("host.script", acts).job

        done = host_jobs.wait(job.uuid, 90)

        assert (done.status, done.error_reason_code) == ("failed", "stalled")

    def test_output_of_a_program_alone_keeps_it_alive(self, host_jobs: JobRunner) -> None:
        """Dots without the end of a line, from a program that writes into the pipe itself."""
        dots = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do printf .; sleep 0.3; done"
        job = host_jobs.start("host.script", script(("program", "sh", "-c", dots))).job

        done = host_jobs.wait(job.uuid, 90)

        assert (done.status, done.stop_reason) == ("succeeded", None)
        assert lines_about_silence(host_jobs, job) == []
        assert "." * 12 in "".join(messages(host_jobs, job))

    def test_a_cancel_outranks_it(self, host_jobs: JobRunner) -> None:
        job = host_jobs.start("host.script", script(DEAF, ("print", "deaf"), ("pause", 600))).job
        eventually(lambda: "deaf" in messages(host_jobs, job), timeout=60)
        host_jobs.cancel(job.uuid)

        done = host_jobs.wait(job.uuid, 90)

        assert (done.status, done.stop_reason) == ("cancelled", "cancel")
