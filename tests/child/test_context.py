"""`JobContext`: nothing that a handler hands over can fail the job or break a row."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, url_for

from flask_jobrunner.child.context import JobContext
from flask_jobrunner.child.steady import Clock, Owner, Worker
from flask_jobrunner.model.errors import JobCancelled, OwnershipLost
from flask_jobrunner.model.records import NewLine, Progress
from flask_jobrunner.model.statuses import StopReason
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.testing.fake_files import FakeFiles
from tests.child.fakes import a_claim
from tests.helpers.waiting import eventually


class FakeSink:
    def __init__(self) -> None:
        self.lines: list[NewLine] = []
        self.step_key: str | None = None

    def record(self, line: NewLine) -> None:
        self.lines.append(line)

    def set_step(self, step_key: str | None) -> None:
        self.step_key = step_key


class FakeHolder:
    def __init__(self) -> None:
        self.asked: StopReason | None = None
        self.is_trusted = True
        self.is_lost = False
        self.looks = 0
        self.hurries = 0

    def look(self) -> StopReason | None:
        self.looks += 1
        return self.asked

    def hurry(self) -> None:
        self.hurries += 1


class Rig:
    """A context and what it told."""

    def __init__(self) -> None:
        self.app = Flask("x")
        self.sink, self.holder, self.owner = FakeSink(), FakeHolder(), Owner()
        self.progress: list[Progress] = []
        self.ctx = JobContext(
            self.app,
            a_claim(),
            {"a": 1},
            files=FakeFiles({"in.txt": b"given"}),
            sink=self.sink,
            holder=self.holder,
            set_progress=self.progress.append,
            mask=lambda text: text.replace("secret", "******"),
            mask_value=lambda value: json.loads(
                json.dumps(value, default=lambda o: o.__dict__).replace("secret", "******")
            ),
            chunk_bytes=1000,
            clock=Clock(5_000_000),
            owner=self.owner,
        )

    @property
    def line(self) -> NewLine:
        return self.sink.lines[-1]

    @property
    def now(self) -> Progress:
        return self.progress[-1]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_it_says_which_job_it_is(rig: Rig) -> None:
    ctx = rig.ctx
    assert (ctx.job_id, ctx.attempt, ctx.job_type, ctx.fence) == (7, 1, "test.job", 70)
    assert (ctx.title, ctx.owner, ctx.reference) == ("A title", "ann", "import:42")
    assert ctx.app is rig.app
    assert ctx.payload == {"a": 1}


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_levels(rig: Rig, level: str) -> None:
    rig.ctx.set_step("load")
    getattr(rig.ctx, level)("hello", rows=3)
    assert (rig.line.level, rig.line.stream, rig.line.step_key) == (level, "", "load")
    assert (rig.line.message, rig.line.context_json) == ("hello", '{"rows":3}')
    assert rig.line.at is not None
    assert rig.line.at >= 5_000_000


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a\r\nb\rc\n", "a\nb\nc\n"),
        ("nul \0 and \ud800", "nul \\u0000 and \\ud800"),
        ("a secret", "a ******"),
        (b"bytes", "b'bytes'"),
        (None, "None"),
        (ValueError("v"), "v"),
    ],
)
def test_messages(rig: Rig, given: object, stored: str) -> None:
    rig.ctx.info(given)
    assert rig.line.message == stored


def test_a_message_whose_text_raises(rig: Rig) -> None:
    class Bad:
        def __str__(self) -> str:
            raise ZeroDivisionError

        __repr__ = __str__

    rig.ctx.info(Bad())
    assert "Bad" in rig.line.message


def test_a_long_message_makes_several_rows_of_one_time_and_one_context(rig: Rig) -> None:
    rig.ctx.info("é" * 1200, n=1)
    assert [len(line.message) for line in rig.sink.lines] == [500, 500, 200]
    assert len({line.at for line in rig.sink.lines}) == 1
    assert [line.context_json for line in rig.sink.lines] == ['{"n":1}', None, None]


def test_streams_are_level_info_and_lose_one_line_break(rig: Rig) -> None:
    rig.ctx.stdout("out\n")
    assert (rig.line.stream, rig.line.level, rig.line.message) == ("stdout", "info", "out")
    rig.ctx.stderr("err\r\n")
    assert (rig.line.stream, rig.line.message) == ("stderr", "err")
    rig.ctx.stdout("two\nlines\n\n")
    assert rig.line.message == "two\nlines\n"


@pytest.mark.parametrize(
    "context",
    [
        {"x": object()},
        {"x": float("nan")},
        {"x": {1: 2}},
        {"x": "y" * 100_000},
    ],
)
def test_a_context_that_is_no_json_is_kept_as_far_as_it_goes(
    rig: Rig, context: dict[str, Any]
) -> None:
    rig.ctx.info("still logged", **context)
    assert rig.line.message == "still logged"
    assert rig.line.context_json is None or json.loads(rig.line.context_json)["x"]


def test_context_may_be_called_like_a_parameter(rig: Rig) -> None:
    rig.ctx.info("x", message="m", level="l")
    assert rig.line.context_json == '{"message":"m","level":"l"}'


def test_steps_are_clipped_and_clamped(rig: Rig) -> None:
    rig.ctx.set_step("k" * 500, "l\n" * 500 + "\0", -3, 10**30)
    assert rig.now.step_key == "k" * 128
    assert len(rig.now.step_label or "") == 255
    assert (rig.now.step_index, rig.now.step_total) == (0, 2**31 - 1)
    assert rig.sink.step_key == "k" * 128
    rig.ctx.set_step("", None, None, None)
    assert rig.now.step_key is None
    rig.ctx.set_step("x", "X", float("nan"), "2")
    assert (rig.now.step_index, rig.now.step_total) == (None, 2)


def test_steps_and_labels_hide_secrets_as_the_log_does(rig: Rig) -> None:
    rig.ctx.set_step("get-secret", "Fetching https://u:secret@x.test", 1, 2)
    assert (rig.now.step_key, rig.sink.step_key) == ("get-******", "get-******")
    assert rig.now.step_label == "Fetching https://u:******@x.test"
    rig.ctx.progress(1, 2, "secret rows")
    assert rig.now.step_label == "Fetching https://u:******@x.test: ****** rows"


def test_a_step_and_a_label_make_no_secret_together(rig: Rig) -> None:
    rig.ctx._mask = mask_text
    rig.ctx.set_step("x", "Change the password", 1, 2)
    rig.ctx.progress(1, 2, "rows")
    assert rig.now.step_label == "Change the password: rows"


@pytest.mark.parametrize(
    ("done", "total", "stored"),
    [
        (1, 4, (1, 4)),
        (2.9, 4.2, (2, 4)),
        (-1, 4, (0, 4)),
        (20, 4, (4, 4)),
        (3, 0, (3, None)),
        (3, None, (3, None)),
        (3, float("nan"), (3, None)),
        (10**40, None, (2**63 - 1, None)),
        (True, 2, (1, 2)),
    ],
)
def test_progress_is_clamped(rig: Rig, done: float, total: float | None, stored: object) -> None:
    rig.ctx.progress(done, total)
    assert (rig.now.done, rig.now.total) == stored


@pytest.mark.parametrize("done", [float("nan"), float("inf"), "many", None, [], object()])
def test_progress_that_is_no_number_is_ignored(rig: Rig, done: Any) -> None:
    rig.ctx.progress(done, 4)
    assert rig.progress == []


def test_a_label_of_progress_stands_beside_the_steps(rig: Rig) -> None:
    rig.ctx.progress(1, 2, "rows")
    assert rig.now.step_label == "rows"
    rig.ctx.set_step("load", "Loading", 1, 2)
    assert (rig.now.step_label, rig.now.done) == ("Loading", 1)
    rig.ctx.progress(2, 2, "rows")
    assert rig.now.step_label == "Loading: rows"
    rig.ctx.progress(2, 2, "x" * 1_000_000)
    assert len(rig.now.step_label or "") == 255
    rig.ctx.progress(1, 2)
    assert rig.now.step_key == "load"


def test_track_counts_and_stops(rig: Rig) -> None:
    seen = []

    def loop() -> None:
        for item in rig.ctx.track("abc", "letters"):
            seen.append(item)
            if item == "b":
                rig.holder.asked = "cancel"

    with pytest.raises(JobCancelled):
        loop()
    assert seen == ["a", "b"]
    assert [(progress.done, progress.total) for progress in rig.progress] == [
        (0, 3),
        (1, 3),
        (2, 3),
    ]


def test_track_takes_what_has_no_length(rig: Rig) -> None:
    assert list(rig.ctx.track(iter([1, 2]), total=2)) == [1, 2]
    assert list(rig.ctx.track(iter([1]))) == [1]
    assert rig.now.total is None


@pytest.mark.parametrize("reason", ["shutdown", "stall", "run_timeout", "cancel", "force"])
def test_every_reason_asks_the_handler_to_stop(rig: Rig, reason: StopReason) -> None:
    assert not rig.ctx.is_cancellation_requested()
    rig.ctx.raise_if_cancelled()
    rig.holder.asked = reason
    assert rig.ctx.is_cancellation_requested()
    with pytest.raises(JobCancelled):
        rig.ctx.raise_if_cancelled()


def test_a_job_that_was_taken_away_should_stop(rig: Rig) -> None:
    rig.holder.is_lost = True
    assert rig.ctx.is_cancellation_requested()


def test_check_raises_only_when_trust_ran_out(rig: Rig) -> None:
    rig.holder.asked = "cancel"
    rig.ctx.check()
    rig.holder.is_trusted = False
    with pytest.raises(OwnershipLost):
        rig.ctx.check()


def test_heartbeat_hurries_the_next_beat(rig: Rig) -> None:
    rig.ctx.heartbeat()
    assert rig.holder.hurries == 1


def test_after_the_end_calls_are_counted_and_have_no_effect(rig: Rig) -> None:
    rig.ctx._end()
    calls: list[Callable[[], object]] = [
        lambda: rig.ctx.info("late"),
        lambda: rig.ctx.stdout("late"),
        lambda: rig.ctx.set_step("late"),
        lambda: rig.ctx.progress(1),
        rig.ctx.heartbeat,
    ]
    for call in calls:
        call()
    assert rig.ctx.late_calls == len(calls)
    assert rig.sink.lines == []
    assert rig.progress == []
    assert rig.holder.hurries == 0


def test_a_fork_may_log_and_changes_nothing_else(rig: Rig) -> None:
    rig.owner.pid += 1
    rig.ctx.info("from a fork")
    rig.ctx.set_step("x")
    rig.ctx.progress(1)
    rig.ctx.heartbeat()
    assert not rig.ctx.is_cancellation_requested()
    assert len(rig.sink.lines) == 1
    assert rig.progress == []
    assert (rig.holder.looks, rig.holder.hurries) == (0, 0)


def test_links_have_the_base_url_of_the_start(rig: Rig) -> None:
    rig.app.add_url_rule("/page", "page", lambda: "")
    with rig.ctx.request_context():
        assert url_for("page", _external=True) == "https://shop.example/page"


def test_threads_may_share_it(rig: Rig) -> None:
    def talk() -> None:
        for number in range(200):
            rig.ctx.set_step(f"s{number}", "S", number, 200)
            rig.ctx.progress(number, 200)
            rig.ctx.info("x")

    workers = [Worker(talk) for _ in range(4)]
    for worker in workers:
        worker.start()
    eventually(lambda: not any(worker.alive for worker in workers))
    assert len(rig.sink.lines) == 800
    assert (rig.now.step_total, rig.now.total) == (200, 200)
