"""Launching: what the caller learns, what the shim is told, and that nothing is left behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner.caller import launch as launch_module
from flask_jobrunner.caller.launch import LaunchCommand, Launcher, LaunchHandle, launcher
from flask_jobrunner.model.errors import LaunchError
from flask_jobrunner.protocol.command import child_environment, shim_command
from flask_jobrunner.protocol.report import parse_report
from tests.helpers.processes import children_of, is_running, look_at, zombies_of
from tests.helpers.shims import (
    CREDENTIAL,
    ENVELOPE,
    UUID,
    child_pid,
    end_if_ours,
    fake_child,
    noted,
)
from tests.helpers.waiting import eventually, stays

ROOT = Path(__file__).resolve().parents[2]


class Recorded:
    """Stands for the database: keeps reports and answers as it is told."""

    def __init__(self, answer: bool | Exception = True) -> None:
        self.answer = answer
        self.lines: list[bytes] = []

    def __call__(self, line: bytes) -> bool:
        self.lines.append(line)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def settings_of(folder: Path, claim_window: float = 20.0) -> str:
    values = {"uuid": UUID, "attempt": 1, "spool": str(folder / "spool")}
    return json.dumps({**values, "claim_window": claim_window})


class Launching:
    """One launcher, and the commands a test gives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launcher = launcher()
        self.recorded = Recorded()

    def child(self, run: str, settle: str = "", **options: Any) -> LaunchHandle:
        """Launch a real shim with a fake child."""
        return self.command(fake_child(self.folder, run, settle), **options)

    def command(
        self,
        command: Sequence[str],
        *,
        on_report: Callable[[bytes], bool] | None = None,
        claim_window: float = 20.0,
    ) -> LaunchHandle:
        """Launch a real shim with this command."""
        argv = tuple(shim_command(settings_of(self.folder, claim_window), command))
        return self._launch(argv, on_report)

    def fake_shim(
        self, code: str, on_report: Callable[[bytes], bool] | None = None
    ) -> LaunchHandle:
        """Launch a program in the shim's place."""
        preamble = "import json, os, sys, time\nline = sys.stdin.buffer.readline()\n"
        argv = (sys.executable, "-I", "-S", "-c", preamble + code, str(self.folder))
        return self._launch(argv, on_report)

    def _launch(
        self, argv: tuple[str, ...], on_report: Callable[[bytes], bool] | None
    ) -> LaunchHandle:
        command = LaunchCommand(argv=argv, env=child_environment(os.environ))
        return self.launcher.launch(command, ENVELOPE, on_report or self.recorded)

    def idle(self) -> bool:
        return not self.launcher._reaper._shims


@pytest.fixture
def launching(tmp_path: Path) -> Iterator[Launching]:
    launching = Launching(tmp_path)
    yield launching
    for pid, _ in noted(tmp_path, "pids"):
        end_if_ours(pid, tmp_path)
    eventually(launching.idle, timeout=20, message="a shim is left")


def test_a_claim_is_heard_and_the_end_recorded(launching: Launching) -> None:
    handle = launching.child("claim(); print('hello', flush=True); sys.exit(3)")

    assert handle.wait(10) == "claimed"
    eventually(lambda: launching.recorded.lines)
    report = parse_report(launching.recorded.lines[0])
    assert (report.uuid, report.exit_code, report.claimed) == (UUID, 3, True)
    assert handle.report == launching.recorded.lines[0]
    assert handle.last_words == "hello"
    eventually(launching.idle)
    assert len(launching.recorded.lines) == 1
    assert handle.wait(0) == "claimed"
    assert noted(launching.folder, "settles") == [], "the receipt was given"


def test_a_launch_does_not_wait_for_the_child(launching: Launching) -> None:
    started = time.monotonic()
    handle = launching.child("time.sleep(2)")
    took = time.monotonic() - started

    assert handle.wait(0) == "waiting"
    assert took < 1.5


def test_a_claim_not_heard_of_in_time_is_unknown(launching: Launching) -> None:
    handle = launching.child("forever()")
    started = time.monotonic()

    assert handle.wait(0.3) == "waiting"
    assert 0.3 <= time.monotonic() - started < 2
    assert handle.report is None
    assert handle.last_words == ""


def test_a_refusal_comes_with_its_code_and_the_report(launching: Launching) -> None:
    body = "envelope(); say('refused', code='bad_credential'); time.sleep(0.2); sys.exit(5)"
    handle = launching.child(body)

    assert handle.wait(10) == "refused"
    assert handle.refusal == "bad_credential"
    assert handle.report is not None
    assert parse_report(handle.report).exit_code == 5


def test_a_refusal_is_told_when_the_time_is_over(launching: Launching) -> None:
    handle = launching.child("envelope(); say('refused', code='x'); forever()")
    eventually(lambda: handle.refusal)

    assert handle.wait(0) == "refused"
    assert handle.report is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        ("raise RuntimeError('the factory')", "RuntimeError: the factory"),
        ("sys.exit('not today')", "not today"),
        ("print('postgresql://shop:s3cret@db/shop'); os._exit(1)", ""),
        ("exec('def')", "SyntaxError"),
    ],
)
def test_a_child_that_ends_before_its_claim_is_heard_at_once_with_its_last_words(
    launching: Launching, body: str, words: str
) -> None:
    started = time.monotonic()
    handle = launching.child(body)

    assert handle.wait(10) == "ended"
    assert time.monotonic() - started < 2
    assert words in handle.last_words
    assert "s3cret" not in handle.last_words
    assert handle.report is not None
    assert parse_report(handle.report).exit_code == 1


def test_last_words_are_masked_bounded_and_say_what_is_missing(launching: Launching) -> None:
    body = "sys.stderr.write('x' * 79 + '\\n'); " * 2 + (
        "[sys.stderr.write('line %d\\n' % n) for n in range(40_000)]; "
        "sys.stderr.write('DB_PASSWORD=hunter2\\n'); print('out'); sys.exit(1)"
    )
    handle = launching.child(body)
    handle.wait(10)

    assert "DB_PASSWORD=********" in handle.last_words
    assert "hunter2" not in handle.last_words
    assert len(handle.last_words) <= 8000
    short = launch_module._last_words(handle.report or b"")
    assert short == handle.last_words


def test_dropped_bytes_are_counted_in_the_last_words(launching: Launching) -> None:
    handle = launching.child("os.write(2, (b'y' * 4000 + b'\\n') * 20); sys.exit(1)")
    handle.wait(10)
    report = parse_report(handle.report or b"")

    assert report.stderr_dropped > 0
    assert "[" not in handle.last_words  # it is longer than what is shown
    assert handle.last_words.endswith("y")


def test_a_missing_job_command_is_said(launching: Launching) -> None:
    handle = launching.command(["/nowhere/flask"])

    assert handle.wait(10) == "ended"
    assert "/nowhere/flask" in handle.last_words
    assert "No such file" in handle.last_words


def test_faulthandlers_words_are_among_the_last(launching: Launching) -> None:
    handle = launching.child(
        "import faulthandler; faulthandler.enable(file=fault); faulthandler._sigsegv()"
    )

    assert handle.wait(10) == "ended"
    assert "Segmentation fault" in handle.last_words


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_child_killed_around_its_claim(launching: Launching, moment: str) -> None:
    body = {"before": "envelope(); note('up', 1); forever()", "after": "claim(); forever()"}[moment]
    handle = launching.child(body)
    if moment == "before":
        eventually(lambda: noted(launching.folder, "up"))
    else:
        assert handle.wait(10) == "claimed"
    os.kill(child_pid(launching.folder), signal.SIGKILL)

    assert handle.wait(5) == {"before": "ended", "after": "claimed"}[moment]
    report = parse_report(eventually(lambda: handle.report or b"", timeout=3))
    assert (report.signal, report.claimed) == (9, moment == "after")


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
    eventually(lambda: launching.recorded.lines, timeout=5)
    release.set()


def test_a_shim_that_ended_is_waited_for_within_half_a_second(launching: Launching) -> None:
    handle = launching.child("sys.exit(0)")
    eventually(lambda: handle.report)
    eventually(lambda: look_at(handle.pid) is None, timeout=2)
    handle = launching.fake_shim("pass")
    eventually(lambda: handle.wait(0) == "ended")
    eventually(lambda: look_at(handle.pid) is None, timeout=0.5)

    assert zombies_of(os.getpid()) == []


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


def server(folder: Path, code: str, run: str, settle: str = "") -> subprocess.Popen[bytes]:
    fake_child(folder, run, settle)
    settings = {"uuid": UUID, "attempt": 1, "claim_window": 20}
    text = SERVER.format(root=str(ROOT), settings=settings, envelope=ENVELOPE) + code
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

    eventually(lambda: not [s for s in map(look_at, _shims_of(tmp_path)) if s], timeout=5)
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
    eventually(lambda: noted(tmp_path, "settles"), timeout=8)
    took = time.monotonic() - started
    for pid in _shims_of(tmp_path):
        end_if_ours(pid, tmp_path)
    process.communicate()

    assert took < 5, "the shim waited for a receipt from a pipe that the fork held open"


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
