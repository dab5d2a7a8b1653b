"""The check of invariants sees each violation: one is made at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.records import Outcome
from tests.helpers.invariants import check
from tests.helpers.stores import Store, lines, make_tables, open_store, queue, start


@pytest.fixture
def store(sqlite_url: str) -> Store:
    """One job that succeeded, with two lines."""
    make_tables(sqlite_url)
    made = open_store(sqlite_url)
    won = start(made, queue(made, lock_key="k"))
    made.ownership.beat(won.fence, lines=lines("one"))
    assert made.endings.finish(won.fence, Outcome(status="succeeded"), last_seq=1)
    return made


def ledger(folder: Path, *told: str) -> Path:
    """What a handler told."""
    path = folder / "ledger"
    path.write_text("".join(f"{line} 4242\n" for line in told))
    return path


VIOLATIONS = {
    "I3": (
        "INSERT INTO jobrun_events (job_id, action, attempt, from_status, to_status, at) "
        "VALUES (1, 'end', 1, 'succeeded', 'succeeded', 1)"
    ),
    "I7": "DELETE FROM jobrun_logs WHERE seq = 2",
    "I15": "UPDATE jobrun_jobs SET handler_started_at = NULL",
    "I16": "UPDATE jobrun_attempts SET attempt = 2",
    "I20": "UPDATE jobrun_logs SET job_id = 99",
    "I21": "UPDATE jobrun_attempts SET ended_at = NULL",
}


@pytest.mark.parametrize(("number", "statement"), VIOLATIONS.items())
def test_a_broken_row_is_seen(store: Store, number: str, statement: str) -> None:
    engine = sa.create_engine(store.url, poolclass=sa.pool.NullPool)
    assert check(engine) == []
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    assert any(number in text for text in check(engine))


@pytest.mark.parametrize(
    ("told", "number"),
    [
        (("start 1", "end 1"), None),
        (("start 1", "start 1", "end 1"), "I1"),
        (("start 1", "end 1", "start 2"), "I1"),
        (("start 1",), "I15"),
    ],
)
def test_a_ledger_that_says_otherwise_is_seen(
    store: Store, tmp_path: Path, told: tuple[str, ...], number: str | None
) -> None:

    found = check(store.database.engine, {1: ledger(tmp_path, *told)})
    assert (found == []) if number is None else number in "".join(found)
