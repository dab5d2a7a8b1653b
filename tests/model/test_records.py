"""Records and results: frozen, and JSON at any moment."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from flask_jobrunner.model import errors, records, results
from flask_jobrunner.model.records import Job, LogLine, Page, plain
from flask_jobrunner.model.results import (
    CancelResult,
    InlineResult,
    RequeueResult,
    StartResult,
    StatusResult,
)

AT = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)
LINE = LogLine(
    seq=1,
    attempt=1,
    created_at=AT,
    level="info",
    stream="",
    step_key=None,
    message="m",
    context={"a": [1]},
)

JOB = Job(**dict.fromkeys(field.name for field in dataclasses.fields(Job)) | {"uuid": "u"})  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [records, results])
def test_everything_is_frozen(module: Any) -> None:
    kinds = [
        kind
        for kind in vars(module).values()
        if dataclasses.is_dataclass(kind) and isinstance(kind, type)
    ]
    assert len(kinds) > 5
    assert all(kind.__dataclass_params__.frozen for kind in kinds)  # type: ignore[attr-defined]


def test_plain_is_json() -> None:
    value = {"at": AT, "line": LINE, "many": (LINE, [AT]), "none": None, "n": 1.5}
    told = json.loads(json.dumps(plain(value)))
    assert told["at"] == "2024-02-29T12:00:00.123456+00:00"
    assert told["line"]["context"] == {"a": [1]}
    assert told["many"][1] == [told["at"]]
    assert LINE.to_dict() == told["line"]
    assert Page(jobs=[], next_cursor=None).to_dict()["jobs"] == []


@pytest.mark.parametrize(
    ("result", "ok"),
    [
        (StartResult(status="started", job=JOB), True),
        (StartResult(status="launching", job=JOB), True),
        (StartResult(status="already_active", job=JOB), False),
        (StartResult(status="launch_failed", job=JOB), False),
        (CancelResult(status="cancelled", job=None), True),
        (CancelResult(status="cancel_requested", job=None), True),
        (CancelResult(status="already_cancel_requested", job=None), True),
        (CancelResult(status="already_terminal", job=None), False),
        (CancelResult(status="not_found", job=None), False),
        (RequeueResult(status="started", job=None), True),
        (RequeueResult(status="launching", job=None), True),
        (RequeueResult(status="launch_failed", job=None), False),
        (RequeueResult(status="not_requeueable", job=None), False),
        (RequeueResult(status="already_active", job=None), False),
        (RequeueResult(status="not_found", job=None), False),
        (StatusResult(status="found", job=None), True),
        (StatusResult(status="not_found", job=None), False),
        (InlineResult(status="succeeded", job=None), True),
        (InlineResult(status="failed", job=None), False),
        (InlineResult(status="cancelled", job=None), False),
    ],
)
def test_ok_and_what_a_result_tells(result: Any, ok: bool) -> None:
    assert result.ok is ok
    told = json.loads(json.dumps(result.to_dict()))
    assert (told["status"], told["ok"]) == (result.status, ok)
    assert told["job"] is None or told["job"]["uuid"] == "u"
    assert {"reason_code", "message"} <= set(told)


def test_errors_have_one_root() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, errors.JobRunnerError) for kind in kinds)
    unknown = errors.LaunchUnknown("text", "the-uuid")
    assert (str(unknown), unknown.job_uuid) == ("text", "the-uuid")
    assert errors.LockBusy.code == "lock_busy"
