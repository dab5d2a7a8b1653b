"""What faulthandler wrote, cut down to what tells where a handler is."""

from __future__ import annotations

from flask_jobrunner.protocol.stacks import stack_lines

HEAD = "Thread 0x00007f32cb093b80 (most recent call first):"
WATCHING = "Current thread 0x00007f32c6d0b6c0 (most recent call first):"


def frame(file: str, name: str) -> str:
    return f'  File "{file}", line 7 in {name}'


OURS = frame("/venv/flask_jobrunner/child/steady.py", "_run")
OWN = [frame("/srv/shop/jobs.py", "deep"), frame("/srv/shop/jobs.py", "build")]
BELOW = [
    frame("/venv/flask_jobrunner/handlers.py", "call"),
    frame("/venv/flask_jobrunner/child/run.py", "perform"),
    frame("/venv/click/core.py", "invoke"),
]


def lines(*blocks: list[str]) -> list[str]:
    return stack_lines("\n".join(line for block in blocks for line in block), [])


def test_a_handler_is_shown_without_what_called_it_and_our_threads_are_left_out() -> None:
    watchdog = [WATCHING, frame("/venv/flask_jobrunner/child/watchdog.py", "_look"), OURS]

    assert lines(watchdog, [HEAD, OURS], [HEAD, *OWN, *BELOW]) == [HEAD, *OWN]


def test_our_frames_above_the_handlers_own_stay() -> None:
    waiting = frame("/venv/flask_jobrunner/child/context.py", "run")

    assert lines([HEAD, waiting, *OWN, *BELOW]) == [HEAD, waiting, *OWN]


def test_a_thread_of_the_application_is_shown_whole() -> None:
    other = [HEAD, frame("/usr/lib/python3/threading.py", "wait"), frame("/srv/shop/a.py", "go")]

    assert lines([WATCHING, *OWN, *BELOW], other) == [WATCHING, *OWN, *other]


def test_a_process_that_has_not_reached_its_handler_is_shown_as_it_is() -> None:
    booting = [HEAD, frame("/srv/shop/app.py", "create_app"), *BELOW[1:]]

    assert lines(booting) == booting


def test_a_handler_without_a_frame_of_its_own_keeps_the_one_that_called_it() -> None:
    assert lines([HEAD, *BELOW]) == [HEAD, BELOW[0]]
