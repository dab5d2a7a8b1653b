"""A cancel that the handler ignores and that nobody forces: the run budget bounds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from tests.helpers.supervising import PATIENCE, ledger_of
from tests.helpers.waiting import eventually
from tests.host_acts import script


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_RUN_BUDGET": 10, "JOBRUNNER_CANCEL_GRACE": None}


def test_it_stays_asked_for_until_the_run_budget_ends_it(
    host_jobs: JobRunner, tmp_path: Path
) -> None:
    acts = script(("ignore_signals",), ("pause", 600), ledger=tmp_path / "ledger")
    job = host_jobs.start("host.script", acts, lock_key="k").job
    eventually(lambda: ledger_of(tmp_path / "ledger"), timeout=PATIENCE)
    asked = host_jobs.cancel(job.uuid)
    assert (asked.status, asked.new_status) == ("cancel_requested", "cancel_requested")
    held = host_jobs.enqueue("host.nothing", lock_key="k")
    assert (held.status, held.job.status) == ("already_active", "cancel_requested")

    done = host_jobs.wait(job.uuid, PATIENCE)
    assert (done.status, done.error_reason_code) == ("cancelled", "cancel_forced")
    assert host_jobs.enqueue("host.nothing", lock_key="k").status == "queued"
    assert ledger_of(tmp_path / "ledger").total() == 1


def test_it_stays_asked_for_until_the_handler_ends(host_jobs: JobRunner, tmp_path: Path) -> None:
    go = tmp_path / "go"
    acts = script(("wait_for_file", str(go)), ("return", 7), ledger=tmp_path / "ledger")
    job = host_jobs.start("host.script", acts, lock_key="k").job
    eventually(lambda: ledger_of(tmp_path / "ledger"), timeout=PATIENCE)
    host_jobs.cancel(job.uuid)
    assert host_jobs.get(job.uuid).status == "cancel_requested"  # type: ignore[union-attr]  # it is there
    go.touch()

    done = host_jobs.wait(job.uuid, PATIENCE)
    assert (done.status, host_jobs.status(job.uuid).result) == ("cancelled", 7)
    assert ledger_of(tmp_path / "ledger").total() == 2
