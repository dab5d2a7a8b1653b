"""A job sees nothing of another one, and nothing of the time before it was there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner import JobRunner
from tests.helpers.supervising import PATIENT, QUICK, Supervisors, Working, ended


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def host_config(tmp_path: Path) -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_HANDLERS": {"looks": "tests.standby.looking:handle"}}


def look(jobs: JobRunner, working: Working, number: int) -> tuple[dict[str, Any], list[str], bool]:
    """What the `number`-th job of this supervisor finds, its lines, and whether it was warm."""
    made = jobs.enqueue("looks").job
    (job,) = ended(jobs, made)
    found = jobs.status(job.uuid)
    assert job.status == "succeeded", found
    assert isinstance(found.result, dict)
    lines = [line.message for line in found.logs]
    return found.result, lines, working.tells("started", number)["stood_by"]


def test_each_job_finds_what_one_in_a_new_process_finds(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    plain = pull.work()
    new, new_lines, stood_by = look(host_jobs, plain, 1)
    assert not stood_by
    plain.stop()
    working = pull.work_patched(PATIENT, "--standby", 1)
    working.tells("standing_by", 1)
    first, first_lines, first_stood_by = look(host_jobs, working, 1)
    working.tells("standing_by", 2)
    second, second_lines, second_stood_by = look(host_jobs, working, 2)

    assert first_stood_by
    assert second_stood_by
    assert len({one.pop("random") for one in (new, first, second)}) == 3
    assert [one.pop("imported") for one in (new, first, second)] == ["job", "standby", "standby"]
    assert first == second == new
    assert (new["role"], new["traces"], new["parent_death_signal"]) == ("job", 0, 0)
    assert (new["leads"], new["input"], new["session"]) == (True, "", 0)
    assert "imported as job" in new_lines
    for lines in (first_lines, second_lines):
        assert not [line for line in lines if "imported" in line], "what it printed before"
        assert any("uncommitted changes" in line for line in lines)


def test_while_it_waits_it_holds_no_connection(host_jobs: JobRunner, pull: Supervisors) -> None:
    working = pull.work("--standby", 1)
    pid = working.tells("standing_by")["pid"]
    held = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    assert held
    assert not [name for name in held if "socket:" in name or ".sqlite" in name or ".db" in name]
    assert working.children() == []
    (row,) = pull.runtime.supervisors.all()
    assert row.standby == 1
