"""Facts are read from the kernel; where it does not tell, nothing is claimed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flask_jobrunner.protocol.report import REPORT_MAX_BYTES, parse_report
from flask_jobrunner.shim import evidence
from tests.helpers.processes import is_running
from tests.helpers.waiting import eventually

V2 = b"0::/user.slice/web.scope\n"
V1 = b"5:cpu,cpuacct:/x\n4:memory:/docker/abc\n1:name=systemd:/x\n"


class Machine:
    """Files of the kernel, as this test wants them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        return self.files.get(path, b"")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(evidence, "_read", machine.read)
    return machine


@pytest.mark.parametrize(
    ("groups", "path"),
    [
        (V2, "/sys/fs/cgroup/user.slice/web.scope/memory.events"),
        (b"0::/\n", "/sys/fs/cgroup/memory.events"),
        (V1, "/sys/fs/cgroup/memory/docker/abc/memory.oom_control"),
        (V1 + V2, "/sys/fs/cgroup/user.slice/web.scope/memory.events"),
    ],
)
def test_the_cgroups_counter_is_found(machine: Machine, groups: bytes, path: str) -> None:
    machine.files = {"/proc/7/cgroup": groups, path: b"low 0\noom 2\noom_kill 3\n"}

    assert evidence.oom_file(7) == path
    assert evidence.oom_kills(path) == 3


def test_where_nobody_counts_nothing_is_known(machine: Machine) -> None:
    machine.files = {"/proc/7/cgroup": V2 + b"nonsense\n"}

    assert evidence.oom_file(7) is None
    assert evidence.oom_kills(None) is None


@pytest.mark.parametrize(
    ("after", "status", "oom"),
    [
        (1, signal.SIGKILL, False),
        (2, signal.SIGKILL, True),
        (2, signal.SIGTERM, False),
        (2, 0, False),
    ],
)
def test_out_of_memory_is_said_only_when_the_cgroup_says_so(
    machine: Machine, after: int, status: int, oom: bool
) -> None:
    path = "/sys/fs/cgroup/memory.events"
    machine.files = {"/proc/7/cgroup": b"0::/\n", path: b"oom_kill 1\n"}
    facts = evidence.Evidence(7)
    machine.files[path] = b"oom_kill %d\n" % after
    facts.close(status, None)

    assert facts.oom is oom
    assert facts.cpu is None


def test_peak_memory_is_the_highest_that_was_seen(machine: Machine) -> None:
    facts = evidence.Evidence(7)
    for kilobytes in (100, 300, 200):
        machine.files["/proc/7/status"] = b"VmPeak: 1 kB\nVmHWM:\t  %d kB\n" % kilobytes
        facts.sample()
    machine.files.clear()
    facts.sample()

    assert facts.peak_rss == 300 * 1024


def test_the_kernels_final_figure_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    facts = evidence.Evidence(os.getpid())
    facts.close(0, usage)

    assert facts.peak_rss == usage.ru_maxrss * 1024
    assert facts.cpu == usage.ru_utime + usage.ru_stime
    assert (facts.exit_code, facts.signal) == (0, None)

    monkeypatch.setattr(sys, "platform", "darwin")
    facts = evidence.Evidence(os.getpid())
    facts.close(None, usage)
    assert facts.peak_rss == usage.ru_maxrss
    assert (facts.exit_code, facts.signal) == (None, None)


def test_the_largest_report_is_below_the_limit() -> None:
    line = evidence.report_line(
        uuid="01890000-0000-7000-8000-0000000000aa",
        attempt=2**31 - 1,
        said={"token": "t" * 64, "nonce": "n" * 16, "refused": "r" * 4000},
        output=dict.fromkeys(("stdout", "stderr"), (b"\xff" * 65536, 2**62)),
        fault=b'"\\\n\x00\xff' * 4000,
        spawn_error="é" * 1000,
    )

    assert len(line) <= REPORT_MAX_BYTES
    report = parse_report(line)
    assert report.output() == (b"\xff" * 65536,) * 2
    assert set(report.fault) == set('"\\\n?')


def test_a_fault_file_is_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "fault"
    path.write_bytes(b"a" * 20_000 + b"end")
    fd = os.open(path, os.O_RDONLY)
    text = evidence.read_fault(fd)
    os.close(fd)

    assert len(text) == evidence.FAULT_BYTES
    assert text.endswith(b"aend")
    assert evidence.read_fault(fd) == b""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A session's leader that has a child, and ends without it when its input ends."""
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n    time.sleep(60)\n"
        "print('up', flush=True)\nsys.stdin.read()\nos._exit(0)"
    )
    leader = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert leader.stdout is not None
    leader.stdout.readline()
    yield leader
    evidence.signal_group(leader.pid, signal.SIGKILL)
    leader.wait()
    for pipe in (leader.stdin, leader.stdout):
        if pipe is not None:
            pipe.close()


def test_a_group_is_counted_and_ended(family: subprocess.Popen[bytes]) -> None:
    assert family.stdin is not None
    members = evidence.group_members(family.pid)
    assert len(members) == 2
    family.stdin.close()
    eventually(lambda: family.pid not in evidence.group_members(family.pid))

    assert evidence.end_group(family.pid) == 1
    assert not any(is_running(pid) for pid in members)
    assert evidence.end_group(family.pid) == 0


def test_what_a_dead_leader_left_is_ended_when_it_is_the_one_that_was_meant(
    family: subprocess.Popen[bytes],
) -> None:
    assert family.stdin is not None
    ticks = evidence._started(family.pid)
    assert evidence.end_leftovers(family.pid, ticks) == 0, "the leader lives"
    family.stdin.close()
    family.wait()
    assert evidence.end_leftovers(family.pid, 2**60) == 0, "members are older than the leader"
    assert len(evidence.group_members(family.pid)) == 1

    assert evidence.end_leftovers(family.pid, ticks) == 1
    assert evidence.group_members(family.pid) == []
    assert evidence.end_leftovers(family.pid, ticks) == 0


def test_the_number_of_a_newer_process_is_left_alone(family: subprocess.Popen[bytes]) -> None:
    assert evidence.end_leftovers(family.pid, evidence._started(family.pid) - 1) == 0
    assert len(evidence.group_members(family.pid)) == 2


def test_those_who_hold_a_pipe_are_counted(family: subprocess.Popen[bytes]) -> None:
    assert family.stdout is not None
    reader, writer = os.pipe()
    count = evidence.holders([family.stdout.fileno()])
    nobody = evidence.holders([reader])
    os.close(reader)
    os.close(writer)

    assert (count, nobody) == (2, 0)


def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "_SEARCH_SECONDS", -1.0)
    reader, writer = os.pipe()
    try:
        assert evidence.holders([reader]) == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_without_proc_a_group_is_ended_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(evidence, "_has_proc", lambda: False)
    monkeypatch.setattr(evidence, "_pids", list)
    monkeypatch.setattr(evidence, "signal_group", lambda _, number: sent.append(number))

    assert evidence.end_group(4_000_000) == 0
    assert sent == [signal.SIGTERM, signal.SIGCONT, signal.SIGKILL]


def test_what_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence.signal_group(2**22 - 1, signal.SIGTERM)

    assert list(evidence._links(2**22 - 1)) == []
    monkeypatch.setattr(os, "listdir", lambda _: (_ for _ in ()).throw(FileNotFoundError()))
    assert evidence._pids() == []
