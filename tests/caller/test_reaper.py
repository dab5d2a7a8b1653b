"""The reaper's parts: lines, the recorder, and a thread that comes back."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from flask_jobrunner.caller import reaper
from flask_jobrunner.caller.reaper import Reaper, Recorder, Shim
from flask_jobrunner.protocol.report import REPORT_MAX_BYTES
from tests.helpers.waiting import eventually

ECHO = "import os\nwhile data := os.read(0, 99999): os.write(1, data)"


class Ear:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def heard_claim(self) -> None:
        self.heard.append("claim")

    def heard_refusal(self, code: str) -> None:
        self.heard.append(code)

    def heard_end(self, report: bytes | None) -> None:
        self.heard.append(("end", report))


class Echo:
    """A process that says what it is told, in a shim's place."""

    def __init__(self) -> None:
        self.ear = Ear()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", ECHO],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.shim = Shim(process, self.ear, lambda _: True)

    def say(self, data: bytes) -> list[bytes]:
        """The lines that the shim object makes of `data`."""
        lines: list[bytes] = []
        feed = threading.Thread(target=self.shim.write, args=(data + b"\nend\n",))
        feed.start()
        while b"end\n" not in lines:
            lines += self.shim.read()
        feed.join()
        return [line for line in lines if line not in (b"end\n", b"\n")]


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.shim.process.kill()
    eventually(echo.shim.has_ended)
    echo.shim.close()


def test_lines_of_any_size_up_to_the_limit(echo: Echo) -> None:
    long = b"x" * (REPORT_MAX_BYTES - 1) + b"\n"

    assert echo.say(b"a\nbc\n") == [b"a\n", b"bc\n"]
    assert echo.say(long[:-1]) == [long]


def test_a_line_that_is_too_long_is_skipped_as_a_whole(echo: Echo) -> None:
    assert echo.say(b"before\n" + b"x" * 3 * REPORT_MAX_BYTES + b"\nafter") == [
        b"before\n",
        b"after\n",
    ]


def test_what_is_understood(echo: Echo) -> None:
    refused = b'{"v":1,"type":"refused","code":"bad_credential"}\n'
    booted = b'{"v":1,"type":"booted"}\n'

    assert not echo.shim.understand(booted)
    assert not echo.shim.understand(refused)
    assert not echo.shim.understand(b"noise\n")
    assert echo.ear.heard == ["bad_credential"]


def test_writing_to_a_closed_shim_is_no_error(echo: Echo) -> None:
    echo.shim.close()
    echo.shim.write(b"+")


def test_the_recorder_runs_all_work_with_a_bounded_number_of_threads() -> None:
    recorder = Recorder(limit=2)
    gate = threading.Event()
    seen: list[str] = []

    def work() -> None:
        gate.wait(10)
        seen.append(threading.current_thread().name)

    for _ in range(6):
        recorder.submit(work)
    running = [one for one in threading.enumerate() if one.name == "jobrunner-recorder"]
    gate.set()
    eventually(lambda: len(seen) == 6)

    assert len(running) <= 2
    eventually(lambda: not recorder._threads)
    recorder.submit(work)
    eventually(lambda: len(seen) == 7)


def test_an_exception_while_recording_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(limit=1)
    done = threading.Event()

    def work() -> None:
        raise SystemExit(3)

    with caplog.at_level(logging.ERROR):
        recorder.submit(work)
        recorder.submit(done.set)
        assert done.wait(10)

    assert "could not be recorded" in caplog.text


def test_a_recorder_without_threads_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    recorder = Recorder()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            recorder.submit(lambda: None)

    done = threading.Event()
    recorder.submit(done.set)
    assert done.wait(10)


def test_the_thread_comes_back_with_the_next_launch(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Reaper()
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with monkeypatch.context() as patch:
        patch.setattr(reaper.Reaper, "_round", lambda *_: 1 / 0)
        watcher.start()
        watcher.adopt(echo.shim)
        assert watcher._thread is not None
        watcher._thread.join(10)
    watcher.start()
    echo.shim.process.kill()

    eventually(lambda: ("end", None) in echo.ear.heard)
    eventually(lambda: not watcher._shims)


def test_a_shim_that_cannot_be_listened_to_does_not_stop_the_others(
    echo: Echo, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Echo()
    monkeypatch.setattr(echo.shim, "read", lambda: 1 / 0)
    watcher = Reaper()
    watcher.start()
    for one in (echo, other):
        watcher.adopt(one.shim)
    with caplog.at_level(logging.ERROR):
        echo.shim.write(b"x\n")
        eventually(lambda: echo.ear.heard == [("end", None)])
    other.shim.write(b'{"v":1,"type":"refused","code":"c"}\n')

    eventually(lambda: other.ear.heard == ["c"])
    assert "listening" in caplog.text
    for one in (echo, other):
        one.shim.process.kill()
    eventually(lambda: not watcher._shims)


def test_the_idle_thread_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Reaper()
    watcher.start()
    watcher.start()
    assert watcher._thread is not None
    before = os.times()

    watcher._thread.join(0.3)
    after = os.times()

    assert after.user + after.system - before.user - before.system < 0.1
