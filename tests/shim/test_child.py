"""What a shim hears of its child, and says of its end."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from flask_jobrunner.protocol.report import REPORT_MAX_BYTES
from flask_jobrunner.shim import channels
from tests.helpers.processes import is_running
from tests.helpers.shims import (
    CREDENTIAL,
    ENVELOPE,
    UUID,
    Launch,
    child_pid,
    end_if_ours,
    fake_child,
    noted,
)
from tests.helpers.waiting import eventually, stays


def test_messages_are_relayed_as_they_were_and_the_report_comes_last(
    launch: Launch, tmp_path: Path
) -> None:
    shim = launch(fake_child(tmp_path, "claim(); say('started', budget=None, grace=0)"))
    report = shim.report()

    assert shim.relayed() == ["booted", "claimed", "started", "report"]
    assert shim.lines[1] == (
        b'{"v": 1, "type": "claimed", "uuid": "%s", "attempt": 1, "token": "%s", "nonce": "%s"}\n'
        % (UUID.encode(), b"t" * 32, b"0" * 16)
    )
    assert (report.uuid, report.attempt) == (UUID, 1)
    assert (report.booted, report.claimed, report.started) == (True, True, True)
    assert (report.token, report.nonce) == ("t" * 32, "0" * 16)
    assert (report.exit_code, report.signal, report.killed) == (0, None, None)
    assert (report.refused, report.spawn_error, report.escaped) == (None, None, 0)
    shim.receive()
    assert shim.join() == 0
    assert noted(tmp_path, "settles") == []


def test_memory_cpu_and_time_are_plausible(launch: Launch, tmp_path: Path) -> None:
    body = """
claim()
block = bytearray(os.urandom(1)) * 80_000_000
until = time.process_time() + 0.3
while time.process_time() < until:
    pass
del block
time.sleep(0.2)
"""
    report = launch(fake_child(tmp_path, body)).report()

    assert report.peak_rss is not None
    # Before its exec a child has its parent's memory, and Linux counts that: in a thread, ours.
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 80_000_000 < report.peak_rss < 160_000_000 + ours
    assert report.cpu is not None
    assert 0.3 <= report.cpu < 2
    assert 0.5 <= report.wall < 5
    assert report.oom in (False, None)


@pytest.mark.parametrize(
    ("body", "exit_code", "number"),
    [
        ("sys.exit(3)", 3, None),
        ("os._exit(255)", 255, None),
        ("os.kill(os.getpid(), signal.SIGKILL)", None, 9),
        ("os.kill(os.getpid(), signal.SIGSEGV)", None, 11),
    ],
)
def test_exit_code_and_signal_are_exact(
    launch: Launch, tmp_path: Path, body: str, exit_code: int | None, number: int | None
) -> None:
    report = launch(fake_child(tmp_path, "claim()\n" + body)).report()

    assert (report.exit_code, report.signal) == (exit_code, number)
    assert report.killed is None


def test_a_missing_command_is_reported_at_once(launch: Launch, tmp_path: Path) -> None:
    shim = launch(["/nowhere/flask", "--app", "shop"])
    report = shim.report(timeout=2)

    assert report.spawn_error is not None
    assert "/nowhere/flask" in report.spawn_error
    assert "No such file" in report.spawn_error
    assert not report.booted
    assert report.exit_code is None


def test_a_command_that_is_no_program_is_reported(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "flask").write_text("", encoding="utf-8")

    assert "Permission denied" in str(launch([str(tmp_path / "flask")]).report().spawn_error)


@pytest.mark.parametrize(
    "noise",
    [
        r'b"hello\n"',
        r'b"\xff\xfe\n"',
        r'b"x" * 1_000_000 + b"\n"',
        r'b"\n" * 10',
        r'b"[]\n"',
        r'b"{\"v\": 1, \"type\": \n"',
        r'b"[" * 4000 + b"\n"',
        r'b"{\"v\": 1, \"type\": \"started\", \"budget\": NaN, \"grace\": 1}\n"',
        r'b"{\"v\": 1, \"type\": \"started\", \"budget\": \"1\", \"grace\": 1}\n"',
        r'b"{\"v\": 1, \"type\": \"started\", \"budget\": 1, \"grace\": true}\n"',
        r'b"{\"v\": 1, \"type\": \"stopping\", \"grace\": 1}\n"',
        r'b"{\"v\": 1, \"type\": \"report\"}\n"',
        r'b"{\"v\": 2, \"type\": \"booted\"}\n"',
        r'b"{\"v\": 1, \"type\": \"refused\", \"code\": \"%s\"}\n" % (b"x" * 65)',
        r'b"{\"v\": 1, \"type\": \"refused\", \"code\": \"\\u00e9\"}\n"',
        r'json.dumps({"v": 2, "type": "claimed", "uuid": UUID, "attempt": 1}).encode() + b"\n"',
        r'json.dumps({"v": 1, "type": "claimed", "uuid": "u", "attempt": 1}).encode() + b"\n"',
        r'json.dumps({"v": 1, "type": "claimed", "uuid": UUID, "attempt": 2}).encode() + b"\n"',
        r'json.dumps({"v": 1, "type": "claimed", "uuid": UUID, "attempt": 1}).encode() + b"\n"',
    ],
)
def test_noise_is_no_message_and_spoils_none(
    launch_here: Launch, tmp_path: Path, noise: str
) -> None:
    shim = launch_here(fake_child(tmp_path, f"envelope()\nraw({noise})\nsay('refused', code='x')"))
    report = shim.report()

    assert shim.relayed() == ["refused", "report"]
    assert (report.refused, report.claimed, report.started) == ("x", False, False)


def test_two_messages_in_one_write_and_one_in_pieces(launch_here: Launch, tmp_path: Path) -> None:
    body = r"""
line = json.dumps({"v": 1, "type": "booted"}).encode()
raw(line + b"\n" + line + b"\n" + line[:5])
time.sleep(0.1)
raw(line[5:] + b"\n" + line)
"""
    shim = launch_here(fake_child(tmp_path, body))
    shim.report()

    assert shim.relayed() == ["booted"] * 3 + ["report"]


def test_a_closed_acknowledgement_pipe_stops_nothing(launch: Launch, tmp_path: Path) -> None:
    shim = launch(fake_child(tmp_path, "claim(); os.close(ack); time.sleep(0.3); sys.exit(4)"))
    report = shim.report()

    assert report.claimed
    assert report.exit_code == 4
    assert report.wall >= 0.3


def test_a_term_from_somebody_else_is_just_how_it_ended(launch: Launch, tmp_path: Path) -> None:
    shim = launch(fake_child(tmp_path, "claim(); forever()"))
    shim.message("claimed")
    os.kill(child_pid(tmp_path), signal.SIGTERM)
    report = shim.report()

    assert (report.signal, report.killed) == (signal.SIGTERM, None)


def test_faulthandlers_text_is_in_the_report(launch: Launch, tmp_path: Path) -> None:
    body = """
import faulthandler
faulthandler.enable(file=fault)
claim()
faulthandler._sigsegv()
"""
    report = launch(fake_child(tmp_path, body)).report()

    assert report.signal == signal.SIGSEGV
    assert "Segmentation fault" in report.fault
    assert "child.py" in report.fault


def test_the_end_is_reported_without_being_asked(launch: Launch, tmp_path: Path) -> None:
    shim = launch(fake_child(tmp_path, "claim(); forever()"))
    shim.message("claimed")
    os.kill(child_pid(tmp_path), signal.SIGKILL)
    report = shim.report()

    assert report.signal == signal.SIGKILL


def test_what_is_left_of_the_group_is_ended_before_the_report(
    launch: Launch, tmp_path: Path
) -> None:
    body = """
claim()
path = os.path.join(HERE, "left")
for number in range(2):
    if os.fork() == 0:
        if number:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("left", os.getpid())
        forever()
while not os.path.exists(path) or len(open(path).readlines()) < 2:
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
    started = time.monotonic()
    report = launch(fake_child(tmp_path, body)).report()
    took = time.monotonic() - started
    left = noted(tmp_path, "left")

    assert len(left) == 2
    assert not any(is_running(pid) for pid in left)
    assert took - report.wall > 0.8, "the time until the group was gone is not the child's"


def test_what_left_the_session_lives_on_and_is_counted(launch: Launch, tmp_path: Path) -> None:
    body = """
claim()
if os.fork() == 0:
    os.setsid()
    note("escaped", os.getpid())
    while True:
        os.write(1, b"still here\\n" * 100)
while not os.path.exists(os.path.join(HERE, "escaped")):
    time.sleep(0.01)
"""
    shim = launch(fake_child(tmp_path, body))
    report = shim.report()
    (pid,) = noted(tmp_path, "escaped")
    alive = is_running(pid)
    end_if_ours(pid, tmp_path)

    assert alive
    assert report.escaped == 1
    assert b"still here" in report.output()[0]


def test_the_child_gets_a_session_clean_signals_and_seven_pipes(
    launch_process: Launch, tmp_path: Path
) -> None:
    body = """
with open("/proc/self/status") as file:
    status = dict(line.split(":\\t", 1) for line in file.read().splitlines() if ":\\t" in line)
fds = [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
note("seen", {
    "sid": os.getsid(0), "pgid": os.getpgid(0), "pid": os.getpid(),
    "parent_sid": os.getsid(os.getppid()),
    "blocked": int(status["SigBlk"], 16), "ignored": int(status["SigIgn"], 16),
    "fds": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in fds},
    "pipes": [ack, out, err, fault],
    "argv": sys.argv[1:],
    "line": envelope().decode(),
})
"""
    launch_process(fake_child(tmp_path, body)).report()
    (seen,) = noted(tmp_path, "seen")
    links = seen["fds"]

    assert seen["sid"] == seen["pgid"] == seen["pid"] != seen["parent_sid"]
    assert seen["blocked"] == 0
    # Python itself ignores two in every process; 32 and 33 belong to the C library.
    assert seen["ignored"] & ~(0b11 << 31) == 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    assert seen["argv"] == ["jobs", "run", UUID]
    assert seen["line"].encode() == ENVELOPE
    assert links["1"] == links[str(seen["pipes"][1])]
    assert links["2"] == links[str(seen["pipes"][2])]
    assert "memfd" in links[str(seen["pipes"][3])]
    assert {int(fd) for fd in links} == {0, 1, 2, *seen["pipes"]}


def test_the_credential_is_in_no_argv_and_no_environment(
    launch_process: Launch, tmp_path: Path
) -> None:
    shim = launch_process(fake_child(tmp_path, "claim(); forever()"))
    shim.message("claimed")
    needle = CREDENTIAL.encode()

    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            for name in ("cmdline", "environ"):
                try:
                    assert needle not in (entry / name).read_bytes()
                except OSError:
                    continue


def test_the_shim_outlives_what_is_sent_to_the_server(
    launch_process: Launch, tmp_path: Path
) -> None:
    shim = launch_process(fake_child(tmp_path, "claim(); time.sleep(0.7); sys.exit(5)"))
    shim.message("claimed")
    pid = shim.process.pid  # type: ignore[attr-defined]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)

    stays(lambda: is_running(pid), seconds=0.3)
    assert shim.report().exit_code == 5


@pytest.mark.parametrize("envelope", [ENVELOPE[:20], b"", b"x" * 5000, b"x" * 4096 + b"\n"])
def test_without_a_whole_envelope_nothing_is_started(
    launch: Launch, tmp_path: Path, envelope: bytes
) -> None:
    shim = launch(fake_child(tmp_path, "claim()"), envelope=envelope)
    shim.hang_up()

    assert shim.join() == 2
    assert noted(tmp_path, "pids") == []


def test_an_envelope_that_does_not_come_is_waited_for_as_long_as_a_claim(
    launch: Launch, tmp_path: Path
) -> None:
    shim = launch(fake_child(tmp_path, "claim()"), envelope=b"", claim_window=0.2)

    assert shim.join() == 2
    assert noted(tmp_path, "pids") == []


def test_an_envelope_in_pieces_is_taken(launch: Launch, tmp_path: Path) -> None:
    shim = launch(fake_child(tmp_path, "claim()"), envelope=ENVELOPE[:20])
    shim.write(ENVELOPE[20:])

    assert shim.report().claimed


def test_a_launcher_that_does_not_read_holds_nobody_up(launch: Launch, tmp_path: Path) -> None:
    body = "claim()\nfor _ in range(40_000): say('booted')\nnote('done', 1)"
    shim = launch(fake_child(tmp_path, body))

    eventually(lambda: noted(tmp_path, "done"))
    assert shim.report().exit_code == 0
    assert all(len(json.loads(line)) >= 2 for line in shim.lines)


def test_pipes_that_cannot_be_had_are_reported(
    launch_here: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_files(_name: str = "") -> int:
        raise OSError(24, "Too many open files")

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(channels, "anonymous_file", no_files)
    shim = launch_here(fake_child(tmp_path, "claim()"))

    assert "Too many open files" in str(shim.report().spawn_error)
    shim.receive()
    shim.join()
    shim.hang_up()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_report_is_never_longer_than_its_reader_takes(launch: Launch, tmp_path: Path) -> None:
    body = """
claim()
os.write(fault, b'"\\n\\x00\\xff' * 40_000)
os.set_blocking(1, False)
os.set_blocking(2, False)
for fd in (1, 2):
    try:
        os.write(fd, b"\\xff" * 10_000_000)
    except BlockingIOError:
        pass
os._exit(0)
"""
    shim = launch(fake_child(tmp_path, body))
    report = shim.report()

    assert len(shim.lines[-1]) <= REPORT_MAX_BYTES
    assert len(report.output()[0]) == len(report.output()[1]) == 65536
