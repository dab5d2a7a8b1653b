"""Every fault point, with everything that can happen there: the exact end of each.

`make test-faults` runs all of it; without that mark, each point is killed once on SQLite.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.crash_matrix.running import Case
from tests.crash_matrix.table import NOT_MEANT, TABLE, Mode, expected
from tests.helpers.faulting import Action
from tests.helpers.invariants import check
from tests.helpers.supervising import QUICK, Supervisors, ledger_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
DATABASES = ("sqlite", "postgresql", "mariadb")
IN_THE_DAILY_RUN = {
    ("claim.before", "raise", "push"),
    ("finish.committed", "raise", "pull"),
    ("start.committed", "stop", "push"),
    ("work.dispatched", "stop", "pull"),
    ("standby.handed", "stop", "pull"),
}
NEW_PROCESSES_ONLY = {"work.spawned"}
STANDBY_IN_THE_DAILY_RUN = {("claim.committed", "kill"), ("work.handed", "kill")}


def cases() -> Iterator[object]:
    """All of them, and which belong to the daily run."""
    yield from plain_cases()
    for point, row in TABLE.items():
        spoken_for = row.role == "web" or row.story == "standby" or point in NEW_PROCESSES_ONLY
        if "pull" not in row.modes or spoken_for:
            continue
        for database, action in itertools.product(DATABASES, get_args(Action)):
            if (action, database) in NOT_MEANT:
                continue
            chosen = database == "sqlite" and (point, action) in STANDBY_IN_THE_DAILY_RUN
            marks = [] if chosen else [pytest.mark.faults]
            if database != "sqlite":
                marks.append(getattr(pytest.mark, database))
            name = f"{database}-standby-{point}-{action}"
            yield pytest.param(database, point, action, "pull", 1, marks=marks, id=name)


def plain_cases() -> Iterator[object]:
    """Those with no more processes than the point asks for."""
    for number, (point, row) in enumerate(TABLE.items()):
        alternating = row.modes[number % len(row.modes)]
        for database, action, mode in itertools.product(DATABASES, get_args(Action), row.modes):
            if (action, database) in NOT_MEANT:
                continue
            killed = action == "kill" and mode == alternating
            chosen = killed or (point, action, mode) in IN_THE_DAILY_RUN
            marks = [] if chosen and database == "sqlite" else [pytest.mark.faults]
            if database != "sqlite":
                marks.append(getattr(pytest.mark, database))
            name = f"{database}-{mode}-{point}-{action}"
            standby = int(row.story == "standby")
            yield pytest.param(database, point, action, mode, standby, marks=marks, id=name)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, database: str) -> str:
    """Of the case's kind."""
    url: str = request.getfixturevalue(f"{database}_url")
    return url


@pytest.fixture
def host_config() -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_CLAIM_WINDOW": 90, "JOBRUNNER_ACK_TIMEOUT": 60}


@pytest.mark.parametrize(("database", "point", "action", "mode", "standby"), list(cases()))
def test_the_end_is_exactly_this(
    host_app: Flask,
    host_jobs: JobRunner,
    pull: Supervisors,
    tmp_path: Path,
    database_url: str,
    point: str,
    action: Action,
    mode: Mode,
    standby: int,
) -> None:
    case = Case(point, action, mode, pull, tmp_path, database_url, standby)
    job = case.run()
    wanted = expected(point, action, mode)
    engine = pull.runtime.database.engine

    assert check(engine, {job.id: case.ledger} if job else None) == []
    if wanted is None:
        assert job is None
        assert not case.ledger.exists()
        return
    assert job is not None
    assert (job.status, job.error_reason_code) == (wanted.status, wanted.reason), case._told()
    assert pull.columns("active_lock_key") == [(None,)]
    assert len(pull.runtime.attempts.of(job.id)) == wanted.attempts
    told = [line.split()[0] for line in ledger_of(case.ledger).elements()]
    assert (told.count("start"), told.count("end")) == (wanted.starts, wanted.ends)
