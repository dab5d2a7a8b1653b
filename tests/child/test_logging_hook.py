"""Every record exactly once, with its level, however logging is set up."""

from __future__ import annotations

import io
import logging
import logging.config
import logging.handlers
import queue
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from flask.logging import default_handler

from flask_jobrunner.child.logging_hook import LoggingHook, level_of

Taken = list[tuple[str, str, str]]


@pytest.fixture
def taken() -> Taken:
    return []


@pytest.fixture
def hook(taken: Taken) -> Iterator[LoggingHook]:
    """Installed on a root logger without handlers, as in a fresh process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    hook = LoggingHook(lambda *told: taken.append(told), lambda number: number in (1, 2))
    hook.install()
    yield hook
    hook.uninstall()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def console() -> Iterator[logging.StreamHandler[io.TextIOWrapper]]:
    """A handler that prints to file descriptor 2, as a fresh process has one."""
    with open(2, "w", closefd=False, encoding="utf-8") as stream:
        handler = logging.StreamHandler(stream)
        yield handler


@pytest.fixture
def logger(hook: LoggingHook) -> Iterator[logging.Logger]:
    logger = logging.getLogger("of.the.test")
    yield logger
    logger.handlers[:] = []
    logger.propagate = True
    logger.setLevel(logging.NOTSET)


def test_levels() -> None:
    numbers = (0, 10, 11, 20, 25, 30, 39, 40, 50)
    assert [level_of(number) for number in numbers] == [
        *["debug"] * 2,
        *["info"] * 3,
        *["warning"] * 2,
        *["error"] * 2,
    ]


def test_without_configuration_info_is_kept_and_debug_is_not(
    logger: logging.Logger, taken: Taken, capfd: pytest.CaptureFixture[str]
) -> None:
    logger.debug("no")
    logger.info("yes %s", 1)
    logger.warning("careful")
    assert taken == [
        ("info", "yes 1", "of.the.test"),
        ("warning", "careful", "of.the.test"),
    ]
    assert capfd.readouterr().err == ""


def test_a_level_that_was_chosen_stands(taken: Taken, logger: logging.Logger) -> None:
    logging.getLogger().setLevel(logging.ERROR)
    logger.warning("no")
    logger.error("yes")
    assert [message for _, message, _ in taken] == ["yes"]


def test_basic_config_still_works_in_a_handlers_module(
    taken: Taken, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest has put handlers of its own there, and they would make basicConfig do nothing.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logging.basicConfig(level=logging.DEBUG, stream=sys.__stderr__)
    logger.debug("now")
    assert taken == [("debug", "now", "of.the.test")]


def test_console_handlers_do_not_print_again(
    taken: Taken,
    logger: logging.Logger,
    console: logging.Handler,
    capfd: pytest.CaptureFixture[str],
) -> None:
    logging.getLogger().addHandler(console)
    logger.addHandler(console)
    logger.info("once")
    assert [message for _, message, _ in taken] == ["once"]
    assert capfd.readouterr().err == ""


def test_a_logger_that_does_not_propagate_is_heard_through_its_console_handler(
    taken: Taken, logger: logging.Logger, console: logging.Handler
) -> None:
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.info("to nobody")
    logger.addHandler(console)
    logger.info("to the console")
    assert [message for _, message, _ in taken] == ["to the console"]


def test_files_are_the_applications_own_business(
    taken: Taken, logger: logging.Logger, tmp_path: Path
) -> None:
    handler = logging.FileHandler(tmp_path / "app.log")
    logger.addHandler(handler)
    logger.info("both")
    logger.propagate = False
    logger.info("file only")
    handler.close()
    assert (tmp_path / "app.log").read_text() == "both\nfile only\n"
    assert [message for _, message, _ in taken] == ["both"]


def test_a_memory_stream_is_no_console(taken: Taken, logger: logging.Logger) -> None:
    stream = io.StringIO()
    logger.addHandler(logging.StreamHandler(stream))
    logger.warning("kept")
    assert stream.getvalue() == "kept\n"


def test_flasks_own_handler_prints_nothing_again(
    hook: LoggingHook, taken: Taken, capfd: pytest.CaptureFixture[str]
) -> None:
    app = Flask("of_the_test")
    app.logger.info("from the app")
    assert default_handler in app.logger.handlers or not app.logger.handlers
    assert taken == [("info", "from the app", "of_the_test")]
    assert capfd.readouterr().err == ""


def test_a_queue_and_its_listener_make_no_second_record(
    taken: Taken, logger: logging.Logger, console: logging.Handler
) -> None:
    records: queue.Queue[logging.LogRecord] = queue.Queue()
    logger.addHandler(logging.handlers.QueueHandler(records))
    listener = logging.handlers.QueueListener(records, console)
    listener.start()
    logger.warning("queued")
    listener.stop()
    assert [message for _, message, _ in taken] == ["queued"]


def test_a_dictconfig_at_run_time_does_not_end_it(taken: Taken, logger: logging.Logger) -> None:
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {"console": {"class": "logging.StreamHandler"}},
            "root": {"level": "DEBUG", "handlers": ["console"]},
        }
    )
    logger.debug("after")
    assert [message for _, message, _ in taken] == ["after"]


def test_tracebacks_are_part_of_the_message(taken: Taken, logger: logging.Logger) -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        logger.exception("it went wrong")
    ((level, message, _),) = taken
    assert level == "error"
    assert message.startswith("it went wrong\nTraceback (most recent call last):")
    assert message.endswith("ValueError: inner")


def test_a_wrong_format_keeps_what_was_to_be_said(taken: Taken, logger: logging.Logger) -> None:
    logging.raiseExceptions, before = False, logging.raiseExceptions
    logger.info("%d apples", "three")
    logging.raiseExceptions = before
    assert "%d apples ('three',)" in taken[0][1]


def test_warnings_are_records(hook: LoggingHook, taken: Taken) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.showwarning(UserWarning("old"), UserWarning, "file.py", 3)
    ((level, message, name),) = taken
    assert (level, name) == ("warning", "py.warnings")
    assert "UserWarning: old" in message


def test_our_own_writing_is_not_logged(
    hook: LoggingHook,
    taken: Taken,
    logger: logging.Logger,
    console: logging.Handler,
    capfd: pytest.CaptureFixture[str],
) -> None:
    logger.addHandler(console)
    with hook.silence():
        logger.warning("BEGIN IMMEDIATE")
    logger.warning("seen")
    assert [message for _, message, _ in taken] == ["seen"]
    assert capfd.readouterr().err == ""


def test_a_failing_record_does_not_fail_the_call(hook: LoggingHook, logger: logging.Logger) -> None:
    def fail(*_: str) -> None:
        raise OSError("pipe")

    hook._take = fail
    logger.warning("lost")


def test_uninstalling_leaves_logging_as_it_was(hook: LoggingHook) -> None:
    ours = logging.Logger.callHandlers
    hook.uninstall()
    assert logging.Logger.callHandlers is not ours
    hook.install()
