"""What the launcher owes its shims and its process: receipts, waiting, nothing inherited."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner.caller.launch import LaunchCommand, Launcher, launcher
from flask_jobrunner.model.errors import LaunchError
from tests.helpers.launches import Launching, Recorded
from tests.helpers.processes import children_of, is_running, look_at, zombies_of
from tests.helpers.shims import (
    CREDENTIAL,
    ENVELOPE,
    UUID,
    child_pid,
)
from tests.helpers.waiting import eventually


@pytest.mark.parametrize(
    "noise",
    [
        'b"hello\\n"',
        'b"x" * 1_000_000 + b"\\n"',
        'b"x" * 300_000',
        'b"\\xff\\n\\n\\n"',
        'b\'{"v":2,"type":"claimed","uuid":"u","attempt":1,"token":"t","nonce":"n"}\\n\'',
        'b\'{"v":1,"type":"claimed"}\\n\'',
        'b\'{"v":1,"type":"report"}\\n\'',
        'b\'{"v":1,"type":"claimed\'',
    ],
)
def test_noise_is_neither_claim_nor_report(launching: Launching, noise: str) -> None:
    handle = launching.fake_shim(f"sys.stdout.buffer.write({noise}); sys.stdout.flush()")

    assert handle.wait(10) == "ended"
    assert handle.report is None
    assert handle.last_words == ""
    eventually(launching.idle)
    assert launching.recorded.lines == []


def test_after_noise_what_is_meant_is_still_heard(launching: Launching) -> None:
    claim = '{"v":1,"type":"claimed","uuid":"u","attempt":1,"token":"t","nonce":"n"}'
    code = f"print('x' * 900_000); print('y'); print('{claim}', flush=True); sys.stdin.read()"
    handle = launching.fake_shim(code)

    assert handle.wait(10) == "claimed"
    os.kill(handle.pid, signal.SIGKILL)


def test_a_shim_that_dies_at_once_is_no_error_of_the_launch(launching: Launching) -> None:
    argv = ("/bin/false",)
    command = LaunchCommand(argv=argv, env={})
    handle = launching.launcher.launch(command, ENVELOPE, launching.recorded)

    assert handle.wait(5) == "ended"
    assert handle.report is None


REPORTS = """
from_shim = {report!r}
os.write(1, from_shim)
os.set_blocking(0, False)
answer = b""
until = time.monotonic() + 1.5
while time.monotonic() < until and not answer:
    time.sleep(0.01)
    answer = os.read(0, 10) if __import__("select").select([0], [], [], 0)[0] else b""
open(sys.argv[1] + "/answer", "wb").write(answer)
"""


def a_report() -> bytes:
    from flask_jobrunner.shim.evidence import report_line

    return report_line(uuid=UUID, attempt=1, said={})


@pytest.mark.parametrize(
    ("answer", "receipt"), [(True, b"+"), (False, b""), (RuntimeError("database"), b"")]
)
def test_the_receipt_is_given_only_for_what_was_recorded(
    launching: Launching, answer: bool | Exception, receipt: bytes
) -> None:
    recorded = Recorded(answer)
    launching.fake_shim(REPORTS.format(report=a_report()), recorded)
    eventually(launching.idle)

    assert recorded.lines == [a_report()]
    assert (launching.folder / "answer").read_bytes() == receipt


def test_a_second_report_is_ignored(launching: Launching) -> None:
    launching.fake_shim(REPORTS.format(report=a_report() * 2))
    eventually(launching.idle)

    assert launching.recorded.lines == [a_report()]


def test_recording_that_takes_long_holds_up_nobody_else(launching: Launching) -> None:
    release = threading.Event()

    def slow(_: bytes) -> bool:
        return release.wait(20)

    for _ in range(2):
        launching.fake_shim(REPORTS.format(report=a_report()), slow)
    handle = launching.child("claim()")

    assert handle.wait(5) == "claimed"
    eventually(lambda: launching.recorded.lines, timeout=60)
    release.set()


def test_a_shim_that_ended_is_waited_for_within_half_a_second(launching: Launching) -> None:
    handle = launching.child("sys.exit(0)")
    eventually(lambda: handle.report)
    eventually(lambda: look_at(handle.pid) is None, timeout=60)
    handle = launching.fake_shim("pass")
    eventually(lambda: handle.wait(0) == "ended")
    eventually(lambda: look_at(handle.pid) is None, timeout=0.5)

    eventually(lambda: zombies_of(os.getpid()) == [])


def test_a_shim_that_closes_its_pipe_and_lives_is_waited_for_later(launching: Launching) -> None:
    handle = launching.fake_shim("os.close(1); time.sleep(0.4)")

    assert handle.wait(5) == "ended"
    assert is_running(handle.pid)
    eventually(launching.idle)
    assert look_at(handle.pid) is None


def test_a_shim_whose_pipe_somebody_else_holds_is_waited_for(
    launching: Launching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_jobrunner.caller.reaper._ROUND_PAUSE", 0.05)
    code = "pid = os.fork()\nif pid == 0: time.sleep(3)\nelse: os._exit(0)"
    handle = launching.fake_shim(code)

    assert handle.wait(2) == "ended"
    eventually(launching.idle)
    assert look_at(handle.pid) is None


def test_other_children_of_the_process_are_left_alone(launching: Launching) -> None:
    other = subprocess.Popen([sys.executable, "-I", "-S", "-c", "raise SystemExit(7)"])
    handle = launching.child("claim()")
    handle.wait(10)
    eventually(launching.idle)
    eventually(lambda: any(seen.pid == other.pid for seen in zombies_of(os.getpid())))

    assert other.wait() == 7


def test_a_child_holds_nothing_of_the_server(launching: Launching, tmp_path: Path) -> None:
    held = [socket.socket(), socket.socket()]
    reader, writer = os.pipe()
    for number in (held[0].fileno(), reader, writer):
        os.set_inheritable(number, True)
    handle = launching.child("claim(); forever()")
    handle.wait(10)
    links = {}
    for pid in (handle.pid, child_pid(tmp_path)):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            links[f"{pid}/{entry.name}"] = str(entry.readlink())
    mine = {str(Path(f"/proc/self/fd/{number}").readlink()) for number in (reader, writer)}
    for one in held:
        one.close()
    os.close(reader)
    os.close(writer)

    assert not [link for link in links.values() if "socket:" in link or link in mine]
    assert all("pipe:" in link or "memfd" in link or link == "/dev/null" or "pidfd" in link
               for link in links.values()), links  # fmt: skip


def test_the_credential_is_nowhere_but_in_the_pipe(launching: Launching, tmp_path: Path) -> None:
    handle = launching.child("claim(); forever()")
    handle.wait(10)
    needle = CREDENTIAL.encode()
    for pid in (handle.pid, child_pid(tmp_path)):
        for name in ("cmdline", "environ"):
            assert needle not in Path(f"/proc/{pid}/{name}").read_bytes()

    assert not [path for path in tmp_path.rglob("*") if needle in path.read_bytes()]


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENOMEM, errno.ENOENT])
def test_what_the_system_refuses_is_said(
    launching: Launching, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(LaunchError, match=os.strerror(number)) as caught:
        launching.fake_shim("pass")

    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == number


def test_a_missing_interpreter_is_said(launching: Launching) -> None:
    command = LaunchCommand(argv=("/nowhere/python",), env={})

    with pytest.raises(LaunchError, match=r"/nowhere/python.*No such file"):
        launching.launcher.launch(command, ENVELOPE, launching.recorded)


def test_a_missing_folder_is_said(launching: Launching, tmp_path: Path) -> None:
    command = LaunchCommand(argv=(sys.executable,), env={}, cwd=str(tmp_path / "none"))

    with pytest.raises(LaunchError, match="none"):
        launching.launcher.launch(command, ENVELOPE, launching.recorded)


def test_no_thread_is_said(launching: Launching, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    launching.launcher = Launcher()
    before = children_of(os.getpid())

    with pytest.raises(LaunchError, match="can't start new thread"):
        launching.fake_shim("pass")
    assert children_of(os.getpid()) == before, "nothing was started that nobody would listen to"


def test_the_launcher_of_a_process_is_one() -> None:
    assert launcher() is launcher()
