"""The shim as a process: light, alone, and at home on a system with less to offer."""

from __future__ import annotations

import compileall
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner.protocol.command import SHIM_FOLDER
from flask_jobrunner.shim import __main__ as shim_main
from flask_jobrunner.shim import channels, deliver, watch
from tests.helpers.processes import look_at
from tests.helpers.shims import (
    ENVELOPE,
    UUID,
    Launch,
    ProcessShim,
    child_pid,
    fake_child,
    noted,
)
from tests.helpers.waiting import eventually

BARE_PLUS = 2_500_000
HEAVY = ("subprocess", "typing", "dataclasses", "pathlib", "tempfile", "socket", "asyncio",
         "inspect", "logging", "ctypes", "flask_jobrunner")  # fmt: skip


def memory_of(pid: int) -> int:
    """What a process has for itself alone: the interpreter's own pages are shared by all."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(text.partition("RssAnon:")[2].split()[0]) * 1024


def test_it_costs_little_more_than_a_bare_interpreter(
    launch_process: Launch, tmp_path: Path
) -> None:
    # As an installed package is; compiling at every start would cost another megabyte.
    assert compileall.compile_dir(SHIM_FOLDER, quiet=1)
    bare = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert bare.stdout is not None
    bare.stdout.readline()
    least = memory_of(bare.pid)
    bare.communicate(b"\n")
    shim = launch_process(fake_child(tmp_path, "claim(); time.sleep(0.7)"))
    shim.message("claimed")
    used = memory_of(shim.process.pid)  # type: ignore[attr-defined]

    assert used - least < BARE_PLUS


def test_it_imports_little() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SHIM_FOLDER)!r})\n"
        "import backflow, channels, deliver, evidence, watch\n"
        "print('\\n'.join(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, check=True, text=True
    )

    assert set(HEAVY).isdisjoint(answer.stdout.split())


def test_a_hostile_parent_is_shaken_off(tmp_path: Path) -> None:
    """Ignored and blocked signals, an absurd umask, a deleted folder, another locale."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = fake_child(tmp_path, "claim(); note('cwd', 1); os._exit(9)")
    settings = json.dumps({"uuid": UUID, "attempt": 1, "claim_window": 10, "spool": "/x"})
    outer = (
        "import os, signal, sys\n"
        f"os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
        "os.umask(0o777)\n"
        "for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    argv = [sys.executable, "-c", outer, sys.executable, "-I", "-S", str(SHIM_FOLDER), settings]
    shim = ProcessShim([*argv, "--", *command], {"LC_ALL": "POSIX", "PATH": os.environ["PATH"]})
    shim.write(ENVELOPE)
    report = shim.report()
    shim.receive()

    assert shim.join() == 0
    shim.hang_up()
    assert (report.exit_code, report.signal) == (9, None)


def test_an_ignored_signal_is_not_passed_to_the_child(
    launch_process: Launch, tmp_path: Path
) -> None:
    shim = launch_process(fake_child(tmp_path, "claim(); forever()"))
    shim.message("claimed")
    os.kill(child_pid(tmp_path), signal.SIGINT)

    report = shim.report()
    assert (report.exit_code, report.signal) in {(130, None), (None, signal.SIGINT)}


def test_when_the_shim_is_killed_the_child_goes_on(launch_process: Launch, tmp_path: Path) -> None:
    body = """
parent = os.getppid()
claim()
while os.getppid() == parent:
    time.sleep(0.01)
note("went_on", os.getpid())
"""
    shim = launch_process(fake_child(tmp_path, body))
    shim.message("claimed")
    os.kill(shim.process.pid, signal.SIGKILL)  # type: ignore[attr-defined]

    eventually(lambda: noted(tmp_path, "went_on"))


def test_the_shim_leaves_nothing_behind(launch_process: Launch, tmp_path: Path) -> None:
    shim = launch_process(fake_child(tmp_path, "claim()"))
    shim.report()
    shim.receive()
    pid = shim.process.pid  # type: ignore[attr-defined]

    assert shim.join() == 0
    assert look_at(pid) is None
    assert look_at(child_pid(tmp_path)) is None


@pytest.fixture
def a_poorer_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pidfd, no memfd, no waitid, no pipe sizes, no /proc to open pipes again."""
    really_open = os.open

    def open_but_not_proc(path: str, flags: int, mode: int = 0o777) -> int:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return really_open(path, flags, mode)

    for name in ("pidfd_open", "memfd_create", "waitid"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(os, "open", open_but_not_proc)
    monkeypatch.setattr(channels, "_SET_SIZE", None)
    monkeypatch.setattr(channels, "_GET_SIZE", None)


@pytest.mark.usefixtures("a_poorer_system")
def test_a_poorer_system_is_enough(launch_here: Launch, tmp_path: Path) -> None:
    body = """
claim()
os.set_blocking(out, True)
print("hello", flush=True)
os.write(fault, b"fault text")
sys.exit(3)
"""
    shim = launch_here(fake_child(tmp_path, body))
    report = shim.report()
    shim.join()

    assert report.exit_code == 3
    assert report.output()[0] == b"hello\n"
    assert report.fault == "fault text"
    assert report.peak_rss
    assert noted(tmp_path, "settles")[0]["stdin"].encode() == shim.lines[-1]


@pytest.mark.usefixtures("a_poorer_system")
def test_limits_hold_on_a_poorer_system(launch_here: Launch, tmp_path: Path) -> None:
    shim = launch_here(fake_child(tmp_path, "forever()"), claim_window=0.3)

    assert shim.report().killed == "claim_window"


def test_a_kernel_that_refuses_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    monkeypatch.setattr(os, "pidfd_open", refuse)
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(fcntl, "ioctl", refuse)
    pipes = channels.Pipes()
    try:
        assert channels.capacity(pipes.out) == 16 * 1024
        assert channels.unread(pipes.out) == 0
        assert watch.pidfd(os.getpid()) is None
        assert os.fstat(pipes.fault).st_nlink == 0
    finally:
        pipes.close()


def test_a_child_that_the_kernel_forgot_has_ended_somehow() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()

    assert watch._wait(process.pid, 0) == (None, None)
    assert deliver._exit_code(process.pid, 1.0) is None


def test_signals_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[int, object] = {}
    masks: list[object] = []
    monkeypatch.setattr(signal, "signal", taken.__setitem__)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda _, mask: masks.append(mask))
    shim_main.take_signals()

    assert taken == {
        signal.SIGCHLD: signal.SIG_DFL,
        signal.SIGTERM: signal.SIG_IGN,
        signal.SIGINT: signal.SIG_IGN,
        signal.SIGHUP: signal.SIG_IGN,
        signal.SIGPIPE: signal.SIG_IGN,
    }
    assert masks == [()]
