"""What leaves a handler, in every shape that a handler can give it."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from flask import Flask

from flask_jobrunner.child import outcome as outcomes
from flask_jobrunner.handlers import Handler
from flask_jobrunner.model.errors import HandlerError, JobCancelled, UnknownJobType
from flask_jobrunner.model.records import Outcome
from flask_jobrunner.model.statuses import StopReason


def same(text: str) -> str:
    return text


def result(value: Any, max_bytes: int = 1 << 20) -> Outcome:
    return outcomes.of_result(Flask("x"), value, max_bytes=max_bytes, max_depth=32, mask=same)


def raised(act: Callable[[], object], asked: StopReason | None = None) -> Outcome:
    try:
        act()
    except BaseException as error:
        return outcomes.of_exception(error, asked, same)
    raise AssertionError("it did not raise")


def throw(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@dataclasses.dataclass
class Point:
    x: int


class OwnBaseError(BaseException):
    """One that `except Exception` does not see."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, "null"),
        (0, "0"),
        ("text", '"text"'),
        ([1, {"a": None}], '[1,{"a":null}]'),
        ((1, 2), "[1,2]"),
        (Decimal("1.10"), '"1.10"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (dt.date(2026, 1, 2), '"Fri, 02 Jan 2026 00:00:00 GMT"'),
        (Point(3), '{"x":3}'),
        ("\ud800\0", '"\\\\ud800\\\\u0000"'),
    ],
)
def test_results_that_are_kept(value: Any, stored: str) -> None:
    assert result(value) == Outcome(status="succeeded", result_json=stored)


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


class Odd:
    """The application's encoder fails on it in its own way."""

    def __html__(self) -> str:
        raise ZeroDivisionError("odd")


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        b"x",
        {1, 2},
        {1: 2},
        object(),
        circle(),
        deep(),
        1 << 5000,
        Odd(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_results_that_cannot_be_encoded(value: Any) -> None:
    outcome = result(value)
    assert (outcome.status, outcome.reason) == ("failed", "result_not_encodable")
    assert "Its result was: " in (outcome.error_message or "")


def test_a_result_that_is_too_large_keeps_its_repr() -> None:
    outcome = result("x" * 5000, max_bytes=100)
    assert outcome.reason == "result_too_large"
    assert "5,002 bytes" in (outcome.error_message or "")
    assert "'xxxx" in (outcome.error_message or "")


async def _async_generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    "value",
    [
        lambda: asyncio.sleep(0),
        lambda: (number for number in range(3)),
        _async_generator,
    ],
)
def test_results_that_were_never_run(value: Callable[[], object]) -> None:
    outcome = result(value())
    assert outcome.reason == "handler_contract_mismatch"
    assert "nothing of it was run" in (outcome.error_message or "")


@pytest.mark.parametrize(
    ("error", "reason", "error_class"),
    [
        (ValueError("v"), "handler_raised", "ValueError"),
        (KeyboardInterrupt("v"), "handler_raised", "KeyboardInterrupt"),
        (GeneratorExit("v"), "handler_raised", "GeneratorExit"),
        (asyncio.CancelledError("v"), "handler_raised", "asyncio.exceptions.CancelledError"),
        (OwnBaseError("v"), "handler_raised", f"{__name__}.OwnBaseError"),
        (SystemExit(0), "handler_exited", "SystemExit"),
        (SystemExit(3), "handler_exited", "SystemExit"),
        (SystemExit(None), "handler_exited", "SystemExit"),
        (MemoryError(), "handler_raised", "MemoryError"),
        (RecursionError("v"), "handler_raised", "RecursionError"),
        (
            JobCancelled("v"),
            "cancelled_unasked",
            "flask_jobrunner.model.errors.JobCancelled",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_exceptions(error: BaseException, reason: str, error_class: str) -> None:
    outcome = raised(throw(error))
    assert (outcome.status, outcome.reason, outcome.error_class) == ("failed", reason, error_class)
    assert outcome.error_message


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        ("cancel", "cancelled", None),
        ("force", "cancelled", None),
        ("run_timeout", "failed", "run_timeout"),
        ("stall", "failed", "stalled"),
        ("shutdown", "interrupted", "shutdown"),
    ],
)
@pytest.mark.parametrize("kind", [JobCancelled, KeyboardInterrupt])
def test_stopping_when_asked(
    kind: type[BaseException], asked: StopReason, status: str, reason: str | None
) -> None:
    outcome = raised(throw(kind()), asked)
    assert (outcome.status, outcome.reason) == (status, reason)


@pytest.mark.parametrize("error", [ValueError("v"), SystemExit(0)])
def test_another_exception_fails_the_job_although_it_was_asked_to_stop(
    error: BaseException,
) -> None:
    assert raised(throw(error), "cancel").status == "failed"


def test_a_call_that_never_entered_the_handler() -> None:
    handler = Handler(job_type="x", function=lambda: None)
    outcome = raised(lambda: handler.call("context"))
    # The frame of this test's own lambda stands for the handler's: only the call inside is ours.
    assert outcome.reason in {"handler_contract_mismatch", "handler_raised"}
    try:
        handler.call("context")
    except TypeError as error:
        stack = error.__traceback__
        assert stack is not None
        called = outcomes.of_exception(error.with_traceback(stack.tb_next), None, same)
        assert called.reason == "handler_contract_mismatch"


def test_what_goes_wrong_before_the_call() -> None:
    error = HandlerError("no module", "handler_not_importable")
    assert outcomes.of_preparation(error, same).reason == "handler_not_importable"
    assert outcomes.of_preparation(UnknownJobType("x"), same).reason == "handler_not_registered"
    assert outcomes.of_preparation(SystemExit(3), same).reason == "handler_not_importable"
    assert outcomes.of_exception(error, None, same).reason == "handler_not_importable"


def test_an_exception_without_a_text() -> None:
    outcome = raised(throw(Unprintable()))
    assert outcome.error_message == "(the text of this Unprintable raised RuntimeError)"
    assert "Unprintable" in (outcome.traceback or "")


def test_a_huge_message_is_capped_in_the_row_and_whole_in_the_log() -> None:
    error = ValueError("ä€" * 60_000)
    outcome = outcomes.of_exception(error, None, same)
    assert len((outcome.error_message or "").encode()) <= 60_000
    text = outcomes.full_message(error, outcome, same)
    assert text == str(error)
    lines = list(outcomes.error_lines(outcome, text, 16384, 7))
    assert "".join(line.message for line in lines) == text
    assert {(line.level, line.at) for line in lines} == {("error", 7)}
    assert lines[0].context_json == (
        '{"error_class":"ValueError","error_reason_code":"handler_raised"}'
    )


def test_a_message_of_100_megabytes_is_bounded_everywhere() -> None:
    error = ValueError("x" * 100_000_000)
    outcome = outcomes.of_exception(error, None, same)
    assert len(outcome.error_message or "") <= 60_000
    assert len(outcome.traceback or "") <= outcomes.TRACEBACK_BYTES
    assert "98,951,424 characters left out" in outcomes.full_message(error, outcome, same)


def test_secrets_are_masked() -> None:
    outcome = outcomes.of_exception(
        ValueError("token=abc"), None, lambda text: text.replace("abc", "***")
    )
    assert outcome.error_message == "token=***"
    assert "abc" not in (outcome.traceback or "")


def test_a_long_chain_of_causes_and_a_circle() -> None:
    error = ValueError("the last")
    current: BaseException = error
    for number in range(1000):
        current.__cause__ = ValueError(f"cause {number}")
        current = current.__cause__
    text = outcomes.format_traceback(error, same)
    assert text.startswith("(further causes left out)")
    assert text.endswith("ValueError: the last\n")
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    text = outcomes.format_traceback(first, same)
    assert text.index("two") < text.index("one")
    assert "direct cause" in text


def test_a_deep_recursion_shows_both_ends() -> None:
    def down(level: int) -> int:
        return down(level + 1) + 1

    outcome = raised(lambda: down(0))
    assert "frames left out" in (outcome.traceback or "")
    assert outcome.error_class == "RecursionError"


def test_notes_and_groups_are_told() -> None:
    error = ExceptionGroup("many", [ValueError("inner"), TypeError("other")])
    error.add_note("a note")
    text = outcomes.format_traceback(error, same)
    assert "a note" in text
    assert "| ValueError: inner" in text


def test_a_suppressed_context_is_not_shown() -> None:
    def act() -> None:
        try:
            raise ValueError("hidden")
        except ValueError:
            raise TypeError("shown") from None

    assert "hidden" not in (raised(act).traceback or "")
