"""The parent's report: what is parsed can be stored, what cannot be is no report."""

from __future__ import annotations

import base64
import json
from dataclasses import fields, replace
from typing import Any

import pytest

from flask_jobrunner.protocol.report import (
    REPORT_MAX_BYTES,
    EndReport,
    ReportError,
    dump_report,
    parse_report,
)

GOOD = EndReport(
    uuid="01890000-0000-7000-8000-0000000000aa",
    attempt=1,
    token="t" * 64,
    nonce="0123456789abcdef",
    booted=True,
    claimed=True,
    started=True,
    refused=None,
    exit_code=None,
    signal=9,
    killed=None,
    peak_rss=12_000_000,
    cpu=0.5,
    wall=1.5,
    oom=None,
    stdout=base64.b64encode(b"last \xff words").decode(),
    stderr="",
    stdout_dropped=0,
    stderr_dropped=3,
    fault="Fatal Python error",
    spawn_error=None,
    escaped=0,
)


def line(**changes: Any) -> bytes:
    values = json.loads(dump_report(GOOD)) | changes
    values = {key: value for key, value in values.items() if value is not ...}
    return json.dumps(values).encode() + b"\n"


def test_comes_back_as_it_was() -> None:
    assert parse_report(dump_report(GOOD)) == GOOD
    never_claimed = replace(
        GOOD, token=None, nonce=None, booted=False, claimed=False, started=False, wall=0, cpu=1
    )
    assert parse_report(dump_report(never_claimed)) == never_claimed


def test_output_is_bytes_and_broken_base64_is_none() -> None:
    assert GOOD.output() == (b"last \xff words", b"")
    assert replace(GOOD, stdout="?", stderr="====").output() == (b"", b"")


def test_evidence_holds_neither_output_nor_secrets() -> None:
    evidence = GOOD.evidence()
    assert evidence["signal"] == 9
    assert evidence["peak_rss"] == 12_000_000
    text = json.dumps(evidence)
    assert GOOD.token is not None
    for secret in (GOOD.token, GOOD.stdout, "0123456789abcdef"):
        assert secret not in text
    assert set(evidence) == {
        *("booted", "claimed", "started", "refused", "exit_code", "signal", "killed"),
        *("peak_rss", "cpu", "wall", "oom", "stdout_dropped", "stderr_dropped"),
        *("fault", "spawn_error", "escaped"),
    }


def test_texts_are_made_storable() -> None:
    report = parse_report(line(spawn_error="no \udcff here\0", fault="a\0b", killed="\ud800"))
    assert report.spawn_error == "no \\udcff here\\u0000"
    assert report.fault == "a\\u0000b"
    assert report.killed == "\\ud800"


WRONG = {
    "nothing": b"",
    "text": b"Segmentation fault\n",
    "bad UTF-8": b"\xff\xfe\n",
    "deep": b"[" * 5000,
    "too long": line(fault="x" * REPORT_MAX_BYTES),
    "a list": b"[]\n",
    "an extra key": line(more=1),
    "a missing key": line(escaped=...),
    "duplicate key": line().replace(b'"attempt"', b'"attempt": 2, "attempt"', 1),
    "other version": line(v=2),
    "version true": line(v=True),
    "another type": line(type="claimed"),
    "NaN": line().replace(b'"cpu": 0.5', b'"cpu": NaN'),
    "infinite": line().replace(b'"wall": 1.5', b'"wall": 1e999'),
    "uuid of another shape": line(uuid="7"),
    "uuid in capitals": line(uuid=GOOD.uuid.upper()),
    "attempt 0": line(attempt=0),
    "attempt true": line(attempt=True),
    "attempt beyond its column": line(attempt=2**31),
    "exit code beyond its column": line(exit_code=2**40),
    "peak beyond its column": line(peak_rss=2**63),
    "negative size": line(stdout_dropped=-1),
    "negative duration": line(wall=-0.5),
    "claimed as a number": line(claimed=1),
    "signal as a bool": line(signal=True),
    "cpu as a bool": line(cpu=False),
    "long token": line(token="t" * 65),
    "long nonce": line(nonce="n" * 65),
}
WRONG |= {f"{f.name} a list": line(**{f.name: [1]}) for f in fields(EndReport)}
WRONG |= {
    f"{f.name} null": line(**{f.name: None}) for f in fields(EndReport) if "None" not in str(f.type)
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_anything_else_is_no_report(data: bytes) -> None:
    with pytest.raises(ReportError):
        parse_report(data)
