"""The demo's jobs, run with a context that only listens."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from demo_app import strikes
from demo_app.extensions import db
from demo_app.handlers import faults, import_csv, long_log, smoke
from demo_app.models import Import, Strike
from flask_jobrunner import JobCancelled
from flask_jobrunner.testing import FakeContext

HEADER = ",".join(strikes.COLUMNS)
GOOD = "LOGAN INTL,B-727,None,1999-01-{day:02},DELTA,Massachusetts,Climb,Small,Gull,Day,0,0,0,150"


def a_file(*rows: str) -> bytes:
    """A CSV file with these rows."""
    return "\n".join((HEADER, *rows)).encode()


def an_import() -> int:
    """The id of an import as the view makes it."""
    upload = Import(file_name="my.csv", sha256="0" * 64, size=3)
    db.session.add(upload)
    db.session.commit()
    return upload.id


def import_file(
    app: Flask, data: bytes, import_id: int | None = None, *, cancel_after: int | None = None
) -> tuple[FakeContext, dict[str, Any]]:
    """Run the import as its process would; without an id, one of its own."""
    ctx = FakeContext(
        import_csv.ImportRequest(import_id or an_import(), 0.0),
        app=app,
        base_url="http://demo.test",
        cancel_after=cancel_after,
        files={import_csv.INPUT: data},
    )
    return ctx, import_csv.ImportCsv().run(ctx)


def stored_rows() -> int:
    """How many strikes there are in the demo's table."""
    return db.session.scalar(select(func.count()).select_from(Strike)) or 0


def test_an_import_stores_clean_rows_and_says_what_was_wrong(app: Flask) -> None:
    bad = GOOD.format(day=2).replace("1999-01-02", "yesterday")
    data = a_file(GOOD.format(day=1), bad, GOOD.format(day=3).replace("None", "C"), "", "a,b")
    import_id = an_import()

    ctx, result = import_file(app, data, import_id)

    assert result["rows"] == {"read": 4, "stored": 2, "left_out": 2}
    assert [problem["rows"] for problem in result["problems"]] == [1, 1, 1]
    assert result["dates"] == {"first": "1999-01-01", "last": "1999-01-03"}
    assert result["page"] == f"http://demo.test/imports/{import_id}"
    assert ctx.messages("warning") == [
        "Row 3: Flight Date is not a date like 1998-07-31 (yesterday); row left out",
        "Row 4: an unknown grade of damage (C); cell emptied",
        "Row 6: the number of cells differs from the header (2); row left out",
    ]
    assert [(key, number, total) for key, _, number, total in ctx.steps] == [
        (key, number, 5) for number, key in enumerate(import_csv.STEPS, 1)
    ]
    stored = db.session.scalars(select(Strike).order_by(Strike.row_number)).all()
    assert [(row.row_number, row.airport, row.damage) for row in stored] == [
        (2, "Logan International", "None"),
        (4, "Logan International", None),
    ]


def test_many_problems_are_counted_and_not_all_written_out(app: Flask) -> None:
    data = a_file(*(["x,y"] * 160), GOOD.format(day=1))

    ctx, result = import_file(app, data)

    assert len(ctx.messages("warning")) == import_csv.MAX_WARNINGS + 1
    assert ctx.messages("warning")[-1] == "60 more problems are not listed one by one"
    assert result["problems"][0]["rows"] == 160


def test_a_file_without_one_good_row_is_imported_as_nothing(app: Flask) -> None:
    _, result = import_file(app, a_file("x,y"))

    assert result["rows"] == {"read": 1, "stored": 0, "left_out": 1}
    assert result["by_year"] == []


def test_rows_that_are_left_out_are_left_behind_with_the_reason(app: Flask) -> None:
    bad = GOOD.format(day=2).replace("LOGAN", '"LO,GAN').replace("INTL", 'INTL"')
    bad = bad.replace("1999-01-02", "yesterday")

    ctx, _ = import_file(app, a_file(GOOD.format(day=1), bad))

    header, row = csv.reader(io.StringIO(ctx.artifacts[import_csv.LEFT_OUT].decode(), newline=""))
    assert header == ["Row", "Problem", *strikes.COLUMNS]
    assert row[:3] == ["3", "Flight Date is not a date like 1998-07-31", "LO,GAN INTL"]
    assert row[2:] == next(csv.reader([bad]))


def test_a_good_file_leaves_no_file_behind(app: Flask) -> None:
    ctx, _ = import_file(app, a_file(GOOD.format(day=1)))

    assert ctx.artifacts == {}


def test_a_second_attempt_replaces_what_the_first_left(app: Flask) -> None:
    data = a_file(*(GOOD.format(day=day) for day in (1, 2, 3)))
    import_file(app, data, import_id := an_import())

    import_file(app, data, import_id)

    assert stored_rows() == 3


def test_a_cancel_while_rows_are_stored_removes_them(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_csv, "BATCH", 1)
    data = a_file(*(GOOD.format(day=day) for day in (1, 2, 3)))

    # Three rows are looked at three times; the eleventh check is before the second batch.
    with pytest.raises(JobCancelled):
        import_file(app, data, cancel_after=10)

    assert stored_rows() == 0


def test_an_import_that_nobody_made_says_so(app: Flask) -> None:
    with pytest.raises(LookupError, match="no import 99"):
        import_file(app, a_file(), 99)


@pytest.mark.parametrize(
    "payload",
    [None, {}, {"import_id": "1"}, {"import_id": 0}, {"import_id": 1, "rest": 60}],
)
def test_an_import_needs_a_file_and_rests_briefly(payload: dict[str, Any] | None) -> None:
    with pytest.raises(ValueError, match=r"^(import_id|rest) is"):
        import_csv.ImportRequest.from_payload(payload)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (None, (10, 500)),
        ({}, (10, 500)),
        ({"seconds": 8, "interval_ms": 500}, (8, 500)),
        ({"seconds": "8", "interval_ms": "250"}, (8, 250)),
        ({"seconds": 0, "interval_ms": 1}, (1, 100)),
        ({"seconds": 9999, "interval_ms": 9999}, (3600, 5000)),
        ({"seconds": "soon", "interval_ms": ""}, (10, 500)),
        ({"seconds": None, "interval_ms": [1]}, (10, 500)),
        ({"seconds": True, "interval_ms": float("nan")}, (10, 500)),
        ({"seconds": float("inf"), "interval_ms": {}}, (10, 500)),
    ],
)
def test_the_smoke_job_takes_any_payload(
    payload: dict[str, Any] | None, expected: tuple[int, int]
) -> None:
    request = smoke.SmokeRequest.from_payload(payload)

    assert (request.seconds, request.interval_ms) == expected


@pytest.mark.usefixtures("awake")
def test_eight_seconds_at_half_a_second_are_sixteen_steps(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_app.handlers.smoke.time.sleep", lambda _: None)
    ctx = FakeContext(smoke.SmokeRequest(8, 500), app=app)

    result = smoke.smoke(ctx)

    assert len(ctx.messages("stdout")) == 16
    assert len(ctx.lines) == 18
    assert ctx.steps[-1] == ("done", "Done", 16, 16)
    assert ctx.progress_calls[-1] == (16, 16)
    assert result == {"seconds": 8, "interval_ms": 500, "steps": 16, "completed_steps": 16}


@pytest.mark.usefixtures("awake")
def test_a_cancelled_smoke_job_says_so_once_and_returns_what_it_did(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_app.handlers.smoke.time.sleep", lambda _: None)
    ctx = FakeContext(smoke.SmokeRequest(120, 500), app=app, cancel_after=3)

    result = smoke.smoke(ctx)

    assert ctx.messages("warning") == ["Asked to stop; 3 of 240 steps are done"]
    assert result["completed_steps"] == 3


def test_a_crash_knows_two_ways() -> None:
    assert faults.CrashRequest.from_payload(None).how == "kill"
    assert faults.CrashRequest.from_payload({"how": "segfault"}).how == "segfault"
    with pytest.raises(ValueError, match="'kill' or 'segfault'"):
        faults.CrashRequest.from_payload({"how": "politely"})


def test_the_failing_job_names_what_it_met_and_why(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_app.handlers.faults.time.sleep", lambda _: None)
    ctx = FakeContext(app=app)

    with pytest.raises(LookupError, match="plums have no price yet") as raised:
        faults.fail(ctx)

    assert isinstance(raised.value.__cause__, ValueError)
    assert ctx.messages("info") == ["With apples it is 1.20", "With pears it is 3.60"]


def test_the_long_log_has_warnings_and_one_needle(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_app.handlers.long_log.time.sleep", lambda _: None)
    ctx = FakeContext(3000, app=app)

    assert long_log.long_log(ctx) == {"lines": 3000}

    assert len(ctx.messages("warning")) == 3
    assert ctx.messages("info") == [f"Here is {long_log.NEEDLE}"]
    assert ctx.progress_calls[-1] == (3000, 3000)


@pytest.mark.parametrize("lines", [0, 200_001, "many", 1.5])
def test_the_long_log_is_not_endless(lines: Any) -> None:
    with pytest.raises(ValueError, match="1 to 200,000"):
        long_log.line_count({"lines": lines})
