"""Launching from servers of all kinds: killed, forked, interrupted, out of files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flask_jobrunner.protocol.report import parse_report
from tests.helpers.processes import is_running, look_at
from tests.helpers.shims import (
    ENVELOPE,
    UUID,
    child_pid,
    end_if_ours,
    fake_child,
    noted,
)
from tests.helpers.waiting import eventually, stays

ROOT = Path(__file__).resolve().parents[2]


# What needs a process of its own: signals, limits, forks, and a launcher that is killed.
SERVER = """
import json, os, resource, signal, sys, threading, time
sys.path.insert(0, {root!r})
from pathlib import Path
from flask_jobrunner.caller.launch import LaunchCommand, launcher
from flask_jobrunner.model.errors import LaunchError
from flask_jobrunner.protocol.command import child_environment, shim_command
folder = Path(sys.argv[1])
recorded = []
def go(on_report=lambda line: recorded.append(line) or True):
    settings = json.dumps({settings!r} | {{"spool": str(folder / "spool")}})
    argv = tuple(shim_command(settings, [sys.executable, "-I", "-S", str(folder / "child.py")]))
    return launcher().launch(
        LaunchCommand(argv=argv, env=child_environment(os.environ)), {envelope!r}, on_report
    )
def until(question):
    end = time.monotonic() + 15
    while not question():
        assert time.monotonic() < end, question
        time.sleep(0.01)
"""


def server(
    folder: Path, code: str, run: str, settle: str = "", *, before: str = ""
) -> subprocess.Popen[bytes]:
    """A process that runs `code`; `before` comes before anything of ours is imported."""
    fake_child(folder, run, settle)
    settings = {"uuid": UUID, "attempt": 1, "claim_window": 20}
    text = before + SERVER.format(root=str(ROOT), settings=settings, envelope=ENVELOPE) + code
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", text, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": ""},
    )


def test_a_killed_launcher_leaves_a_job_that_ends_recorded(tmp_path: Path) -> None:
    body = "claim()\nwhile not os.path.exists(os.path.join(HERE, 'go')): time.sleep(0.01)"
    process = server(tmp_path, "go().wait(10); print('claimed', flush=True); until(int)", body)
    assert process.stdout is not None
    assert process.stdout.readline() == b"claimed\n"
    process.kill()
    process.communicate()
    pid = child_pid(tmp_path)
    stays(lambda: is_running(pid), seconds=0.2)
    (tmp_path / "go").touch()
    (settled,) = eventually(lambda: noted(tmp_path, "settles"))
    report = parse_report(settled["stdin"].encode())

    assert settled["argv"] == ["jobs", "settle", UUID]
    assert (report.exit_code, report.claimed, report.token) == (0, True, "t" * 32)
    eventually(lambda: look_at(pid) is None)


def test_a_launcher_killed_before_the_envelope_starts_nothing(tmp_path: Path) -> None:
    code = """
from flask_jobrunner.caller import reaper
reaper.Shim.write = lambda shim, data: os.kill(os.getpid(), signal.SIGKILL)
go()
"""
    process = server(tmp_path, code, "claim()")
    process.communicate(timeout=20)

    eventually(lambda: not [s for s in map(look_at, _shims_of(tmp_path)) if s], timeout=60)
    assert noted(tmp_path, "pids") == []


def _shims_of(folder: Path) -> list[int]:
    from tests.helpers.processes import all_processes

    return [seen.pid for seen in all_processes() if str(folder) in seen.command]


@pytest.mark.parametrize(
    "code",
    [
        # The kernel forgets how children ended, and waiting for them is an error.
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        # Servers install handlers; ours must not need the main thread.
        "signal.signal(signal.SIGCHLD, lambda *_: None)",
        "os.close(0)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
        # As in a threaded worker: the launching thread is gone long before the job.
        """
def go(go=go):
    handles = []
    thread = threading.Thread(target=lambda: handles.append(go()))
    thread.start()
    thread.join()
    return handles[0]
""",
    ],
)
def test_unusual_servers(tmp_path: Path, code: str) -> None:
    rest = """
handle = go()
assert handle.wait(10) == "claimed"
until(lambda: recorded)
until(lambda: not launcher()._reaper._shims)
assert not os.path.exists(f"/proc/{handle.pid}"), "not waited for"
print("good")
"""
    process = server(tmp_path, code + rest, "claim(); sys.exit(3)")
    answer, _ = process.communicate(timeout=30)

    assert answer == b"good\n"
    assert noted(tmp_path, "settles") == []


@pytest.mark.parametrize("loaded", ["in the worker", "by the arbiter"])
def test_a_server_that_gevent_has_patched(tmp_path: Path, loaded: str) -> None:
    patch = "from gevent import monkey, spawn\nmonkey.patch_all()\n"
    rest = """
turns = 0
def other():
    global turns
    while True:
        turns += 1
        time.sleep(0.01)
spawn(other)
handles = [go() for _ in range(3)]
before = turns
assert [handle.wait(10) for handle in handles] == ["claimed"] * 3
assert turns > before + 5, "nobody else had a turn"
until(lambda: len(recorded) == 3)
until(lambda: not launcher()._reaper._shims)
assert not [one.pid for one in handles if os.path.exists(f"/proc/{one.pid}")], "not waited for"
print("good")
"""
    first, then = ("", patch + rest) if loaded == "by the arbiter" else (patch, rest)
    process = server(tmp_path, then, "time.sleep(0.5); claim(); sys.exit(3)", before=first)
    answer, _ = process.communicate(timeout=30)

    assert answer == b"good\n", answer.decode()
    assert noted(tmp_path, "settles") == []


def test_where_threads_rest_the_shim_has_its_report_recorded_itself(tmp_path: Path) -> None:
    code = """
import logging, types
logging.basicConfig(stream=sys.stdout, format="%(message)s")
sys.modules["uwsgi"] = types.SimpleNamespace(has_threads=0)
handles = [go(), go()]
assert [handle.wait(10) for handle in handles] == ["claimed"] * 2
until(lambda: not launcher()._reaper._shims)
assert not recorded
print("good")
"""
    started = time.monotonic()
    process = server(tmp_path, code, "claim(); sys.exit(3)")
    answer, _ = process.communicate(timeout=30)

    assert time.monotonic() - started < 9, "the shims waited for a receipt"
    assert [line[:27] for line in answer.splitlines()] == [b"uWSGI runs without threads:", b"good"]
    assert len(noted(tmp_path, "settles")) == 2


def test_a_fork_that_python_did_not_hear_of(tmp_path: Path) -> None:
    code = """
from flask_jobrunner.caller import launch
launch._after_fork.__code__ = (lambda: None).__code__
assert go().wait(10) == "claimed"
until(lambda: len(recorded) == 1)
pid = os.fork()
if pid == 0:
    mine = go()
    assert mine.wait(10) == "claimed"
    until(lambda: len(recorded) == 2)
    until(lambda: not launcher()._reaper._shims)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0, "the forked process failed"
print("good")
"""
    process = server(tmp_path, code, "claim(); time.sleep(0.3)")
    answer, _ = process.communicate(timeout=60)

    assert answer.endswith(b"good\n"), answer.decode()


def test_a_forked_worker_gets_a_launcher_of_its_own(tmp_path: Path) -> None:
    code = """
handle = go()
assert handle.wait(10) == "claimed"
until(lambda: recorded)
running = go()
pids = set()
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        recorded.clear()
        mine = go()
        assert mine.wait(10) == "claimed"
        until(lambda: recorded)
        until(lambda: not launcher()._reaper._shims)
        assert len(recorded) == 1
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the forked process failed"
until(lambda: len(recorded) == 2)
until(lambda: not launcher()._reaper._shims)
print("good")
"""
    process = server(tmp_path, code, "claim(); time.sleep(0.3)")
    answer, _ = process.communicate(timeout=60)

    assert answer.endswith(b"good\n"), answer.decode()
    assert noted(tmp_path, "settles") == []


def test_shims_see_the_end_of_a_preloading_server_although_it_forked(tmp_path: Path) -> None:
    code = """
go().wait(10)
if os.fork() == 0:
    time.sleep(20)
    os._exit(0)
print(os.getpid(), flush=True)
os._exit(0)
"""
    body = "claim(); time.sleep(0.4)"
    process = server(tmp_path, code, body)
    process.wait(20)
    started = time.monotonic()
    eventually(lambda: noted(tmp_path, "settles"), timeout=60)
    took = time.monotonic() - started
    for pid in _shims_of(tmp_path):
        end_if_ours(pid, tmp_path)
    process.communicate()

    assert took < 9.5, "the shim waited for a receipt from a pipe that the fork held open"


def test_an_interrupt_while_waiting_spoils_nothing(tmp_path: Path) -> None:
    code = """
handle = go()
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    handle.wait(10)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert handle.wait(10) == "claimed"
until(lambda: recorded)
"""
    process = server(tmp_path, code, "time.sleep(0.6); claim()")
    answer, _ = process.communicate(timeout=30)

    assert answer == b"interrupted\n"
    assert process.returncode == 0


def test_a_process_out_of_files_fails_the_launch_and_recovers(tmp_path: Path) -> None:
    code = """
launcher()._reaper.start()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 1, hard))
try:
    go()
except LaunchError as error:
    print(error, flush=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
assert go().wait(10) == "claimed"
until(lambda: recorded)
"""
    process = server(tmp_path, code, "claim()")
    answer, _ = process.communicate(timeout=30)

    assert b"Too many open files" in answer
    assert answer.count(b"\n") == 1
    assert process.returncode == 0
