"""Sweeps and prunings that are killed in the middle, and a row that somebody holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner.model.records import Outcome
from flask_jobrunner.recovery.sweep import Sweeper
from flask_jobrunner.repositories import database as module
from flask_jobrunner.runtime import Runtime
from tests.helpers.commands import Commands
from tests.helpers.faulting import Fault
from tests.helpers.invariants import check
from tests.helpers.stores import (
    DEAD,
    assert_sound,
    change,
    everything,
    history,
    lines,
    messages,
    queue,
    start,
    status_of,
)

pytestmark = pytest.mark.slow
KILLED = -9


@pytest.fixture
def runtime(host_app: Flask) -> Runtime:
    found: Runtime = host_app.extensions["jobrunner"]
    return found


def killed_at(point: str, folder: Path, hit: int = 1) -> dict[str, str]:
    """The environment of a command that is killed at the `hit`-th such point."""
    return Fault(point, "kill", "web", str(folder / "mark"), database="", hit=hit).environ()


def test_a_sweep_that_was_killed_is_completed_by_the_next(
    commands: Commands, runtime: Runtime, tmp_path: Path
) -> None:
    dead = [
        start(runtime, queue(runtime, lock_key=f"k{number}"), worker=DEAD).fence.job_id
        for number in range(4)
    ]
    swept = commands.process("sweep", environ=killed_at("sweep.after_n", tmp_path, hit=2))
    assert swept.exit_code == KILLED
    ended, waits = ("interrupted", "owner_gone"), ("running", None)
    assert [status_of(runtime, job_id) for job_id in dead] == [ended, ended, waits, waits]
    assert check(runtime.database.engine) == []

    assert len(commands.process("sweep", "--json").json()["moved"]) == 2
    assert [status_of(runtime, job_id) for job_id in dead] == [ended] * 4
    assert [len(history(runtime, job_id)) for job_id in dead] == [3] * 4
    assert all(runtime.jobs.holder(f"k{number}") is None for number in range(4))
    assert_sound(runtime)


def test_a_pruning_that_was_killed_between_lines_and_job_is_completed_by_the_next(
    commands: Commands, runtime: Runtime, tmp_path: Path
) -> None:
    won = start(runtime, queue(runtime, lock_key="k"))
    job_id = won.fence.job_id
    assert runtime.ownership.beat(won.fence, lines=lines(*"abc"), last_seq=0)
    assert runtime.endings.finish(won.fence, Outcome(status="succeeded"), last_seq=3)
    change(runtime, job_id, finished_at=1)
    assert len(messages(runtime, job_id)) == 4

    prune = ("prune", "--jobs", "1d")
    answer = commands.process(*prune, environ=killed_at("retain.children", tmp_path))
    assert answer.exit_code == KILLED
    assert messages(runtime, job_id) == []
    assert status_of(runtime, job_id) == ("succeeded", None)
    assert len(history(runtime, job_id)) == 3
    assert check(runtime.database.engine) == []

    assert commands.process(*prune).exit_code == 0
    left = everything(runtime)
    for name in ("jobs", "attempts", "logs", "events", "files"):
        assert left[f"jobrun_{name}"] == [], name


@pytest.mark.parametrize(
    "database_url",
    [
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ],
    indirect=True,
)
class TestARowThatSomebodyHolds:
    """On SQLite, who holds one row holds all of them."""

    @pytest.fixture
    def database_url(self, request: pytest.FixtureRequest) -> str:
        url: str = request.getfixturevalue(f"{request.param}_url")
        return url

    def test_it_is_named_and_hides_none_behind_it(
        self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "BUSY_TIMEOUT", 1.0)
        held, free = (start(runtime, worker=DEAD) for _ in range(2))
        jobs = runtime.database.tables.jobs
        with runtime.database.engine.begin() as connection:
            mine = sa.select(jobs.c.id).where(jobs.c.id == held.fence.job_id).with_for_update()
            connection.execute(mine)
            result = Sweeper(runtime).sweep()

        assert result.failed == [held.owned.job.uuid]
        assert result.moved == {free.owned.job.uuid: "interrupted"}
        assert status_of(runtime, held.fence.job_id) == ("running", None)
        assert Sweeper(runtime).sweep().moved == {held.owned.job.uuid: "interrupted"}
        assert_sound(runtime)
