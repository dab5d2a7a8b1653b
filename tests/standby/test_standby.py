"""A process that stands by runs the next job, and one job only."""

from __future__ import annotations

import pytest

from flask_jobrunner import JobRunner
from tests.helpers.supervising import PATIENT, QUICK, Supervisors, ended
from tests.helpers.waiting import eventually
from tests.host_acts import script


@pytest.fixture
def host_config() -> dict[str, object]:
    return dict(QUICK)


def test_it_runs_the_next_job_and_another_one_takes_its_place(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    working = pull.work_patched(PATIENT, "--standby", 1)
    pids = []
    for number in range(1, 4):
        pids.append(working.tells("standing_by", number)["pid"])
        made = host_jobs.enqueue("host.script", script(("print", "hello"), ("return", number))).job
        (job,) = ended(host_jobs, made)
        assert (job.status, job.attempt) == ("succeeded", 1)
        told = working.tells("started", number)
        assert (told["stood_by"], told["pid"]) == (True, pids[-1])
    assert len(set(pids)) == 3
    working.stop()
    assert working.told("standby_discarded") == []


def test_nobody_stands_by_while_the_supervisor_is_drained(
    host_jobs: JobRunner, pull: Supervisors
) -> None:
    working = pull.work_patched(PATIENT, "--standby", 1)
    first = working.tells("standing_by")["pid"]
    (row,) = pull.runtime.supervisors.all()

    assert pull.runtime.drains.drain(row.uuid, row.process, "ann")
    working.tells("drained")
    eventually(lambda: working.children() == [], timeout=60)

    assert pull.runtime.drains.resume(row.uuid, row.process, "ann")
    assert working.tells("standing_by", 2)["pid"] != first
    working.stop()
    assert working.told("standby_discarded") == []
