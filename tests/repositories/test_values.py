"""The same values in and out of every database: payload, result, lines, keys, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flask_jobrunner.model.records import NewLine, Outcome, Progress
from flask_jobrunner.protocol.encoding import clean_text, encode_json
from tests.helpers.stores import Store, claim, owned, queue, row, start

TEXTS = [
    "",
    " ",
    "  blanks around  ",
    "grün Ünïcødé 語 日本",
    "😀 👩‍👩‍👧‍👧",
    "\u202eright to left\u2066",
    "\u2028\u2029\x85\x0b\x0c",
    "</script><b>&amp;'\"`",
    "'; DROP TABLE jobrun_jobs; --",
    "%s %(name)s {} :name ? $1 \\ \\\\ \\0",
    "tab\tnew\nline\r\nend",
    "\x01\x1b[31mred\x1b[0m\x7f",
    "e\u0301 is not \u00e9",
    "a\0b\ud800c",
    "x" * 70_000,
    "ü" * 65_537,
    "😀" * 16_385,
]
VALUES: list[Any] = [
    {},
    {"nested": {"a": [1, 2, {"b": None}]}},
    {"int": 2**63, "more": -(2**70), "zero": 0, "minus": -0.0},
    {"float": 0.1, "small": 5e-324, "big": 1.7976931348623157e308},
    {"b": 1, "a": 2, "B": 3},
    {"": "", " ": " "},
    {"a\0": "\ud800", "\\u0000": "\\ud800"},
    {"text": TEXTS},
]
RESULTS: list[Any] = [*VALUES, [], [1], "text", "", 0, -1, 1.5, True, False, None]


def encoded(value: Any) -> str:
    return encode_json(value, max_bytes=1 << 20, max_depth=32)


def cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): cleaned(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_payload(store: Store, value: Any) -> None:
    job = queue(store, payload_json=encoded(value))
    assert job.payload == owned(store, job).job.payload == cleaned(value)
    assert list(job.payload or {}) == list(cleaned(value))
    assert row(store, job.id)["payload_json"] == encoded(value)


@pytest.mark.parametrize("value", RESULTS, ids=range(len(RESULTS)))
def test_a_result(store: Store, value: Any) -> None:
    won = start(store)
    ended = store.endings.finish(won.fence, Outcome(status="succeeded", result_json=encoded(value)))
    assert ended is not None
    assert json.loads(ended.result_json or "?") == cleaned(value)
    assert type(json.loads(ended.result_json or "?")) is type(value)


def test_lines_and_errors(store: Store) -> None:
    won = start(store)
    sent = [NewLine(clean_text(text), context_json=encoded({"t": text})) for text in TEXTS]
    store.ownership.beat(won.fence, lines=sent, last_seq=0)
    stored = store.logs.after(won.fence.job_id, 0, 100)
    assert [line.message for line in stored] == [clean_text(text) for text in TEXTS]
    assert [line.context for line in stored] == [{"t": clean_text(text)} for text in TEXTS]

    long = clean_text("".join(TEXTS))
    store.endings.finish(
        won.fence,
        Outcome(status="failed", reason="handler_raised", error_message=long, traceback=long),
        last_seq=len(TEXTS),
    )
    job = owned(store, won.fence.job_id).job
    assert job.error_message == long
    assert store.attempts.of(job.id)[0].traceback == long
    assert store.attempts.of(job.id)[0].error_message == long


@pytest.mark.parametrize("text", [text for text in TEXTS if len(text) < 100 and "\0" not in text])
def test_short_texts(store: Store, text: str) -> None:
    job = queue(store, title=text, owner=text, reference=text, actor=text, lock_key=text)
    stored = owned(store, job).job
    assert [stored.title, stored.owner, stored.reference, stored.actor, stored.lock_key] == [
        text
    ] * 5
    holder = store.jobs.holder(text)
    assert holder is not None
    won = claim(store, job)
    progress = Progress(step_key=text, step_label=text, step_index=2**31 - 1, done=2**63 - 1)
    store.ownership.beat(won.fence, progress=progress)
    stored = owned(store, job).job
    assert (stored.current_step_key, stored.current_step_label) == (text, text)
    assert (stored.step_index, stored.progress_done) == (2**31 - 1, 2**63 - 1)


def test_a_megabyte(store: Store) -> None:
    big = encoded({"x": "y" * ((1 << 20) - 8)})
    assert len(big) == 1 << 20
    job = queue(store, payload_json=big)
    assert job.payload == json.loads(big)


def test_a_stored_value_that_nobody_can_read_shows_as_none(store: Store) -> None:
    job = queue(store, payload_json="{broken")
    assert job.payload is None
    assert owned(store, job).payload_json == "{broken"
