"""The demo's jobs in processes of their own, on all three databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select

from demo_app import create_app
from demo_app.extensions import db, jobs
from demo_app.models import Strike
from flask_jobrunner import Job
from tests.helpers.processes import assert_no_process_left
from tests.helpers.waiting import eventually

pytestmark = pytest.mark.slow

PATIENCE = 120.0


@pytest.fixture
def everywhere(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The demo on one of the three databases; its jobs' processes find the same in their
    environment."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("DEMO_INSTANCE", str(tmp_path / "instance"))
    app = create_app({"TESTING": True})
    with app.app_context():
        db.create_all()
        yield app
        db.session.remove()
        for engine in db.engines.values():
            engine.dispose()
    assert_no_process_left(str(tmp_path), timeout=20)


def started(answer: Any) -> str:
    """The uuid of the job to whose page a form has led."""
    assert answer.status_code == 303, answer.text
    uuid: str = answer.location.rpartition("/")[2]
    return uuid


def ended(uuid: str) -> Job:
    """The job at its end."""
    job = jobs.wait(uuid, PATIENCE)
    assert job.is_terminal
    return job


def said(uuid: str) -> list[tuple[str, str, str]]:
    """Level, stream and text of every line."""
    lines = jobs.status(uuid, after_seq=0, limit=1000).logs
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    return [(line.level, line.stream, line.message) for line in lines]


def test_the_public_file_becomes_rows_and_a_result(everywhere: Flask) -> None:
    client = everywhere.test_client()

    answer = client.post("/import/sample")
    assert answer.location == "/imports/1"
    (asked,) = jobs.find(reference="import:1").jobs
    job = ended(uuid := asked.uuid)

    assert (job.status, job.warning_count, job.owner) == ("succeeded", 74, "visitor")
    result = jobs.status(uuid).result
    assert result["rows"] == {"read": 10_000, "stored": 9_976, "left_out": 24}
    db.session.rollback()  # MariaDB would go on showing what there was at the upload
    assert db.session.scalar(select(func.count()).select_from(Strike)) == 9_976
    page = client.get("/imports/1").text
    assert "9,976" in page
    assert "$7,043,545" in page
    address = f"/jobs/{uuid}/artifacts/left-out.csv"
    assert f'href="{address}"' in page
    left_out = client.get(address)
    assert left_out.text.count("\n") == 1 + 24
    left_out.close()


def test_the_smoke_job_is_sixteen_steps_and_twenty_lines(everywhere: Flask) -> None:
    client = everywhere.test_client()
    form = {"seconds": "8", "interval_ms": "500", "lock_key": "one"}
    uuid = started(client.post("/run/smoke", data=form))

    again = client.post("/run/smoke", data=form)
    beside = [started(client.post("/run/smoke", data={"seconds": "1", "lock_key": " "}))] * 2

    assert again.status_code == 409
    assert f"/jobs/{uuid}" in again.text
    job = ended(uuid)
    assert (job.current_step_key, job.step_index, job.step_total) == ("done", 16, 16)
    lines = said(uuid)
    assert len(lines) == 20
    assert lines[2:18] == [("info", "stdout", f"Step {n} of 16") for n in range(1, 17)]
    assert [ended(other).status for other in beside] == ["succeeded", "succeeded"]


def test_a_cancelled_smoke_job_keeps_what_it_did(everywhere: Flask) -> None:
    uuid = started(everywhere.test_client().post("/run/smoke", data={"seconds": "120"}))
    eventually(lambda: len(said(uuid)) > 3, timeout=20, message="some steps are done")

    jobs.cancel(uuid)
    job = ended(uuid)

    assert job.status == "cancelled"
    assert job.finished_at is not None
    result = jobs.status(uuid).result
    assert 0 < result["completed_steps"] < result["steps"] == 240
    assert [level for level, _, _ in said(uuid)].count("warning") == 1


@pytest.mark.parametrize(
    ("name", "signal", "words"),
    [("kill", "SIGKILL", "the next thing is kill"), ("segfault", "SIGSEGV", "in string_at")],
)
def test_a_crash_leaves_its_last_words(app: Flask, name: str, signal: str, words: str) -> None:
    uuid = started(app.test_client().post(f"/run/{name}"))

    job = ended(uuid)

    assert (job.status, job.error_reason_code) == ("interrupted", "process_died")
    assert signal in (job.error_message or "")
    # The report may come a moment after the status, and brings the last lines.
    eventually(
        lambda: any(words in message for _, _, message in said(uuid)),
        message=lambda: f"the last words are there: {said(uuid)}",
    )


def test_the_noisy_job_is_heard_in_all_its_ways(client: FlaskClient) -> None:
    uuid = started(client.post("/run/noisy"))

    assert ended(uuid).status == "succeeded"
    lines = said(uuid)
    for line in (
        ("info", "stdout", "print to the output"),
        ("info", "stderr", "print to the error output"),
        ("debug", "", "ctx.debug"),
        ("warning", "", "a record of level WARNING"),
        ("info", "stdout", "printf of the C library, 1 of 1"),
        ("info", "stderr", "and one of its error output"),
        ("info", "stdout", "a line of a program that ctx.run has started"),
        ("info", "stdout", f"\033[32m{25 * chr(0x2588)}\033[0m 100 %"),
        ("info", "stdout", "connecting to postgresql://app:********@db.example/shop"),
    ):
        assert lines.count(line) == 1, (line, lines)


def test_the_stubborn_job_is_ended_after_its_grace(client: FlaskClient) -> None:
    uuid = started(client.post("/run/stubborn"))
    eventually(lambda: len(said(uuid)) > 1, timeout=60)

    assert jobs.cancel(uuid).status == "cancel_requested"
    job = ended(uuid)

    assert (job.status, job.error_reason_code) == ("cancelled", "cancel_forced")
    assert any("I was asked to stop" in message for _, _, message in said(uuid))


def test_the_failing_job_shows_its_error_with_the_cause(client: FlaskClient) -> None:
    job = ended(uuid := started(client.post("/run/fail")))

    assert (job.status, job.error_class) == ("failed", "LookupError")
    page = client.get(f"/jobs/{uuid}").text
    assert "plums have no price yet" in page
    assert "could not convert string to float" in page


def test_a_crash_can_be_had_again_from_its_page(client: FlaskClient) -> None:
    uuid = started(client.post("/run/kill"))
    ended(uuid)

    same_origin = {"Sec-Fetch-Site": "same-origin"}
    again = started(client.post(f"/jobs/{uuid}/again", headers=same_origin))

    assert again != uuid
    assert ended(again).payload == {"how": "kill"}
