"""An idle supervisor starts a new job although its idle sleep would last for an hour."""

from __future__ import annotations

import pytest

from flask_jobrunner import JobRunner
from tests.helpers.supervising import QUICK, Supervisors, ended
from tests.host_app import db


@pytest.fixture
def host_config() -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_IDLE_SLEEP": 3600}


def test_an_idle_supervisor_is_woken(host_jobs: JobRunner, pull: Supervisors) -> None:
    first = host_jobs.enqueue("host.nothing").job
    working = pull.work()
    ended(host_jobs, first)
    for _ in range(3):
        ended(host_jobs, host_jobs.enqueue("host.nothing").job)
    joined = host_jobs.enqueue("host.nothing", session=db.session).job
    db.session.commit()
    again = ended(host_jobs, joined)[0]
    assert again.status == "succeeded"
    working.stop()
    assert working.told("not_listening") == []
