"""`jobs.start` beside and inside the host's transaction, with real processes."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from flask_jobrunner import Job, JobRunnerError, UncommittedChanges
from flask_jobrunner.model.results import StartResult
from tests.helpers.hosts import end_processes, host_environment, running_host
from tests.helpers.waiting import eventually, stays
from tests.host_acts import script
from tests.host_app import Entry, db, jobs


@pytest.fixture
def config() -> dict[str, Any]:
    """What a test's class or module may override."""
    return {}


@pytest.fixture
def host(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> Iterator[Flask]:
    """The host application on each database; what a test leaves running is ended."""
    environment = host_environment(monkeypatch, database_url, tmp_path, **config)
    with running_host() as app:
        yield app
    end_processes(environment.mark)


def all_jobs() -> list[Job]:
    return list(jobs.find().jobs)


def ended(job: Job | None) -> Job:
    assert job is not None
    found = jobs.wait(job.uuid, timeout=30)
    assert found.is_terminal, found
    return found


def entries() -> list[str]:
    db.session.rollback()
    return sorted(db.session.scalars(sa.select(Entry.name)))


@pytest.mark.parametrize("change", ["pending", "flushed", "text"])
def test_start_refuses_while_the_session_holds_changes(host: Flask, change: str) -> None:
    if change == "text":
        db.session.execute(sa.text("INSERT INTO host_entries (name) VALUES ('secret')"))
    else:
        db.session.add(Entry(name="a"))
    if change == "flushed":
        db.session.flush()

    with pytest.raises(UncommittedChanges) as caught:
        jobs.start("host.nothing")

    assert isinstance(caught.value, JobRunnerError)
    assert "<Entry (new)>" in str(caught.value) or "INSERT INTO host_entries" in str(caught.value)
    assert "db.session.commit()" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert all_jobs() == []

    db.session.commit()
    assert ended(jobs.start("host.nothing").job).status == "succeeded"


@pytest.mark.parametrize("config", [{"JOBRUNNER_UNCOMMITTED": "warn"}])
def test_warn_only_warns(host: Flask) -> None:
    db.session.add(Entry(name="a"))

    with pytest.warns(UserWarning, match=r"<Entry \(new\)>") as caught:
        result = jobs.start("host.nothing")

    assert [warning.filename for warning in caught] == [__file__]
    assert result.ok
    assert ended(result.job).status == "succeeded"
    assert entries() == []

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jobs.start("host.nothing").ok


def test_a_read_and_a_rollback_do_not_refuse(host: Flask) -> None:
    entries()
    assert jobs.start("host.nothing").ok
    db.session.add(Entry(name="a"))
    db.session.flush()
    db.session.rollback()
    assert jobs.start("host.nothing").ok


def test_a_start_in_the_session_runs_after_the_commit(host: Flask) -> None:
    db.session.add(Entry(name="with the job"))
    db.session.flush()

    result = jobs.start("host.script", script(("return", 7)), session=db.session)
    assert result.status == "launching"
    assert result.ok
    assert result.job is not None
    assert jobs.get(result.job.uuid) is None

    db.session.commit()
    job = ended(result.job)
    assert job.status == "succeeded"
    assert jobs.status(job.uuid).result == 7
    assert entries() == ["with the job"]


def test_the_job_sees_what_was_committed_with_it(host: Flask) -> None:
    for number in range(3):
        db.session.add(Entry(name=f"before {number}"))
    result = jobs.start("host.script", script(("add_entry", "by the job")), session=db.session)
    db.session.commit()

    assert ended(result.job).status == "succeeded"
    assert entries() == ["before 0", "before 1", "before 2", "by the job"]


@pytest.mark.parametrize("end", ["rollback", "remove"])
def test_a_rollback_leaves_no_row_and_no_process(host: Flask, end: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    db.session.add(Entry(name="a"))
    result = jobs.start("host.script", script(ledger=ledger), session=db.session)
    assert result.job is not None
    getattr(db.session, end)()
    db.session.commit()

    assert jobs.get(result.job.uuid) is None
    assert ended(jobs.start("host.nothing").job).status == "succeeded"
    assert [job.job_type for job in all_jobs()] == ["host.nothing"]
    assert not ledger.exists()


def test_a_savepoint_decides_about_its_own_jobs(host: Flask) -> None:
    # A write first: sqlite3 begins no transaction before a savepoint.
    db.session.add(Entry(name="a"))
    db.session.flush()
    with db.session.begin_nested():
        kept = jobs.start("host.nothing", reference="kept", session=db.session)
    undone = db.session.begin_nested()
    jobs.start("host.nothing", reference="undone", session=db.session)
    undone.rollback()
    assert kept.job is not None
    assert jobs.get(kept.job.uuid) is None

    db.session.commit()

    assert ended(kept.job).status == "succeeded"
    assert [job.reference for job in all_jobs()] == ["kept"]


def test_several_in_one_transaction_are_all_launched(host: Flask) -> None:
    results = [jobs.start("host.nothing", reference=str(n), session=db.session) for n in range(3)]
    db.session.commit()

    assert [ended(result.job).status for result in results] == ["succeeded"] * 3


def test_a_joined_start_makes_the_next_plain_one_refuse(host: Flask) -> None:
    jobs.start("host.nothing", session=db.session)

    with pytest.raises(UncommittedChanges):
        jobs.start("host.nothing")
    db.session.rollback()


def test_the_holder_of_a_lock_is_answered_and_the_hosts_work_survives(host: Flask) -> None:
    holder = jobs.start("host.script", script(("wait_for_cancel",)), lock_key="k")
    assert holder.job is not None
    db.session.add(Entry(name="a"))
    db.session.flush()

    result = jobs.start("host.nothing", lock_key="k", session=db.session)

    assert result.status == "already_active"
    assert result.job is not None
    assert result.job.uuid == holder.job.uuid
    db.session.commit()
    assert entries() == ["a"]
    jobs.cancel(holder.job.uuid)
    ended(holder.job)


def test_a_lock_taken_in_the_same_transaction_is_already_active(host: Flask) -> None:
    db.session.add(Entry(name="a"))
    first = jobs.start("host.nothing", lock_key="k", session=db.session)
    second = jobs.start("host.nothing", lock_key="k", session=db.session)

    assert second.status == "already_active"
    assert first.job is not None
    assert second.job is not None
    assert second.job.uuid == first.job.uuid
    db.session.commit()
    assert ended(first.job).status == "succeeded"
    assert entries() == ["a"]


def test_of_two_transactions_that_take_one_lock_the_later_hears_of_the_first(host: Flask) -> None:
    if db.engine.dialect.name == "sqlite":
        pytest.skip("on SQLite, two transactions never write at the same time")
    ours = "host.script", script(("wait_for_cancel",))
    first = jobs.start(*ours, lock_key="k", session=db.session)
    answers: list[StartResult] = []

    def later() -> None:
        with host.app_context():
            db.session.add(Entry(name="of the later"))
            db.session.flush()
            answers.append(jobs.start("host.nothing", lock_key="k", session=db.session))
            db.session.commit()

    thread = threading.Thread(target=later)
    thread.start()
    stays(lambda: not answers, seconds=0.5, message="the later one waits for the first")
    db.session.commit()
    thread.join(30)

    assert [answer.status for answer in answers] == ["already_active"]
    assert answers[0].job is not None
    assert first.job is not None
    assert answers[0].job.uuid == first.job.uuid
    assert entries() == ["of the later"]
    jobs.cancel(first.job.uuid)
    ended(first.job)


def test_two_phase_commit(host: Flask) -> None:
    if db.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no two-phase commit")
    with Session(db.engine, twophase=True) as session:
        session.add(Entry(name="a"))
        result = jobs.start("host.nothing", session=session)
        session.prepare()
        assert result.job is not None
        assert jobs.get(result.job.uuid) is None
        session.commit()

    assert ended(result.job).status == "succeeded"
    assert entries() == ["a"]


def test_a_session_of_another_database_is_refused(host: Flask, tmp_path: Path) -> None:
    elsewhere = sa.create_engine(f"sqlite:///{tmp_path / 'other.sqlite'}", poolclass=sa.NullPool)
    with Session(elsewhere) as session, pytest.raises(JobRunnerError) as caught:
        jobs.start("host.nothing", session=session)

    assert "other.sqlite" in str(caught.value)
    assert repr(db.engine.url) in str(caught.value)
    assert all_jobs() == []


def test_bad_input_is_refused_before_the_transaction_is_touched(host: Flask) -> None:
    with pytest.raises(JobRunnerError):
        jobs.start("host.validated", {"count": "many"}, session=db.session)

    assert not db.session().in_transaction()


@pytest.mark.parametrize("config", [{"JOBRUNNER_COMMAND": ["/bin/false"]}])
def test_a_launch_that_fails_never_reaches_the_hosts_commit(host: Flask) -> None:
    db.session.add(Entry(name="a"))
    result = jobs.start("host.nothing", session=db.session)
    db.session.commit()

    assert entries() == ["a"]
    assert result.job is not None
    uuid = result.job.uuid
    eventually(lambda: (job := jobs.get(uuid)) is not None and job.is_terminal)
    found = jobs.get(uuid)
    assert found is not None
    assert (found.status, found.error_reason_code) == ("failed", "launch_failed")
