"""What can be known about a child from outside: memory, cgroup, process group, how it ended."""

from __future__ import annotations

import binascii
import contextlib
import json
import os
import re
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable, Iterator, Mapping
    from typing import Protocol

    class Watches(Protocol):
        """What `last_words` needs of watch.Watch."""

        pid: int
        killed: str | None
        said: dict[str, object]

        def reap(self) -> tuple[int | None, resource.struct_rusage | None]: ...

    class Tails(Protocol):
        """What it needs of backflow.Tail."""

        kept: bytearray
        dropped: int

    class Streams(Protocol):
        """What it needs of one of the pipes in backflow."""

        fd: int
        finished: bool

    class Backflows(Protocol):
        """What it needs of backflow.Backflow."""

        @property
        def streams(self) -> Mapping[str, Streams]: ...
        def leftovers(self) -> Mapping[str, Tails]: ...


REPORT_VERSION = 1
FAULT_BYTES = 16 * 1024
STACK_SIGNAL: int | None = signal.SIGRTMIN + 9 if hasattr(signal, "SIGRTMIN") else None
"""Makes a job's process write the stacks of its threads into faulthandler's file, also while a C
call holds the interpreter. A real-time signal: applications use the others."""
STORED = b"\n--- stored up to byte %d ---\n"
_STORED = re.compile(rb"\n--- stored up to byte (\d{1,18}) ---\n")
GROUP_GRACE = 1.0  # seconds between TERM and KILL for what a dead child left running
_SEARCH_SECONDS = 0.5
_CGROUP = "/sys/fs/cgroup"


class Evidence:
    """Facts about one child, collected while it lives and when it has ended."""

    def __init__(
        self, pid: int, clock: Callable[[], float] = time.monotonic, cpu_before: float = 0.0
    ) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.cpu: float | None = None
        self.peak_rss: int | None = None
        self.oom: bool | None = None
        self.wall = 0.0
        self._clock = clock
        self._cpu_before = cpu_before
        self._started = clock()
        self._oom_file = oom_file(pid)
        self._ooms = oom_kills(self._oom_file)

    def sample(self) -> None:
        """Note the child's memory: what the kernel says at the end may be a grandchild's."""
        self._raise_peak(resident_peak(self.pid))

    def ask_for_stack(self) -> bool:
        """Have it write down where it is; False where it would not survive to be asked."""
        if STACK_SIGNAL is None or not catches(self.pid, STACK_SIGNAL):
            return False
        # Our own child, not waited for: the number can belong to nobody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, STACK_SIGNAL)
        return True

    def note_end(self) -> None:
        """Note when it ended."""
        self.wall = self._clock() - self._started

    def close(self, status: int | None, usage: resource.struct_rusage | None) -> None:
        """Note how it ended; `status` is what wait4 said, None where somebody else waited."""
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            self.exit_code, self.signal = (code, None) if code >= 0 else (None, -code)
        if usage is not None:
            self.cpu = max(0.0, usage.ru_utime + usage.ru_stime - self._cpu_before)
            # Kilobytes, but bytes on macOS: getrusage(2) of each.
            self._raise_peak(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
        after = oom_kills(self._oom_file)
        if self._ooms is not None and after is not None:
            self.oom = after > self._ooms and self.signal == signal.SIGKILL

    def _raise_peak(self, value: int | None) -> None:
        if value and value > (self.peak_rss or 0):
            self.peak_rss = value


def last_words(
    *, uuid: str, attempt: int, watch: Watches, flow: Backflows, facts: Evidence, fault: int
) -> bytes:
    """The report on a child that has ended; ends what is left of its group, and waits for it."""
    facts.note_end()
    end_group(watch.pid)
    tails = flow.leftovers()
    still_held = [stream.fd for stream in flow.streams.values() if not stream.finished]
    facts.close(*watch.reap())
    return report_line(
        uuid=uuid,
        attempt=attempt,
        said=watch.said,
        killed=watch.killed,
        evidence=facts,
        output={name: (bytes(tail.kept), tail.dropped) for name, tail in tails.items()},
        fault=read_fault(fault),
        escaped=holders(still_held) if still_held else 0,
    )


def report_line(
    *,
    uuid: str,
    attempt: int,
    said: dict[str, object],
    killed: str | None = None,
    evidence: Evidence | None = None,
    output: dict[str, tuple[bytes, int]] | None = None,
    fault: bytes = b"",
    spawn_error: str | None = None,
    escaped: int = 0,
) -> bytes:
    """The report, with its newline: every key is always there, and it is below 256 KiB.

    `said` is what the child's own messages told; `output` maps a stream to the bytes that were
    not delivered and the number of bytes dropped before them.
    """
    texts = {name: (output or {}).get(name, (b"", 0)) for name in ("stdout", "stderr")}
    values = {
        "v": REPORT_VERSION,
        "type": "report",
        "uuid": uuid,
        "attempt": attempt,
        "token": said.get("token"),
        "nonce": said.get("nonce"),
        "booted": bool(said.get("booted")),
        "claimed": bool(said.get("claimed")),
        "started": bool(said.get("started")),
        "refused": said.get("refused"),
        "exit_code": evidence.exit_code if evidence else None,
        "signal": evidence.signal if evidence else None,
        "killed": killed,
        "peak_rss": evidence.peak_rss if evidence else None,
        "cpu": evidence.cpu if evidence else None,
        "wall": evidence.wall if evidence else 0.0,
        "oom": evidence.oom if evidence else None,
        "stdout": binascii.b2a_base64(texts["stdout"][0], newline=False).decode("ascii"),
        "stderr": binascii.b2a_base64(texts["stderr"][0], newline=False).decode("ascii"),
        "stdout_dropped": texts["stdout"][1],
        "stderr_dropped": texts["stderr"][1],
        "fault": _plain(fault),
        "spawn_error": spawn_error,
        "escaped": escaped,
    }
    return json.dumps(values, separators=(",", ":")).encode("ascii") + b"\n"


def read_fault(fd: int) -> bytes:
    """The last `FAULT_BYTES` of faulthandler's file, without what the child stored itself."""
    try:
        size = os.fstat(fd).st_size
        begin = max(0, size - FAULT_BYTES)
        return unstored(os.pread(fd, FAULT_BYTES, begin), begin)
    except OSError:
        return b""


def unstored(data: bytes, begin: int = 0) -> bytes:
    """What of faulthandler's file, from byte `begin` on, is in the log of nobody yet."""
    after = max((int(found[1]) for found in _STORED.finditer(data)), default=0)
    return without_marks(data[max(0, after - begin) :])


def without_marks(data: bytes) -> bytes:
    """What faulthandler itself wrote."""
    return _STORED.sub(b"", data)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, as far as this user may look."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _plain(data: bytes) -> str:
    # faulthandler writes ASCII. Anything else would take six bytes a character in JSON.
    return "".join(chr(one) if 32 <= one < 127 or one in b"\t\n" else "?" for one in data)


def resident_peak(pid: int) -> int | None:
    """VmHWM of a process in bytes."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def cpu_so_far(pid: int) -> float:
    """The CPU seconds that a process and what it waited for have used."""
    ticks = sum(int(field) for field in _stat_fields(pid)[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def oom_file(pid: int) -> str | None:
    """The file in which the child's cgroup counts processes killed for lack of memory."""
    for line in _read(f"/proc/{pid}/cgroup").decode("utf-8", "surrogateescape").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            candidate = f"{_CGROUP}{path.rstrip('/')}/memory.events"
        elif "memory" in controllers.split(","):
            candidate = f"{_CGROUP}/memory{path.rstrip('/')}/memory.oom_control"
        else:
            continue
        if oom_kills(candidate) is not None:
            return candidate
    return None


def oom_kills(path: str | None) -> int | None:
    """How many processes were killed there for lack of memory; None where nobody counts."""
    if path is not None:
        for line in _read(path).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return None


def group_members(leader: int) -> list[int]:
    """The living processes of the session that `leader` founded, itself included.

    A program that the job runs may have a group of its own in it; one that left the session is
    meant to go on.

    Only meaningful while `leader` is known to be the process that it was: a child not yet waited
    for, or an identity that was compared.
    """
    found = []
    for pid in _pids():
        fields = _stat_fields(pid)
        if fields and fields[0] not in b"ZX" and int(fields[3]) == leader:
            found.append(pid)
    return found


def end_group(leader: int, grace: float = GROUP_GRACE) -> int:
    """End what is left of the session of a dead `leader`; how many there were.

    TERM, CONT, `grace` seconds, KILL. The leader must not have been waited for yet, so that its
    number cannot belong to anybody else; for one that was, see `end_leftovers`.
    """
    left = group_members(leader)
    if not left and _has_proc():
        return 0
    _signal_all(leader, left, signal.SIGTERM)
    _signal_all(leader, left, signal.SIGCONT)
    if _gone_within(leader, grace):
        return len(left)
    _signal_all(leader, group_members(leader), signal.SIGKILL)
    _gone_within(leader, 1.0)
    return len(left)


def end_leftovers(leader: int, ticks: int, grace: float = GROUP_GRACE) -> int:
    """End the group of a leader that somebody else waited for; how many processes there were.

    `ticks` are the start ticks it had. As long as a member lives, the kernel gives the number to
    nobody else; where it stands for a newer process, or the leader still runs, nothing is done.
    """
    fields = _stat_fields(leader)
    if fields and (fields[0] not in b"ZX" or int(fields[19]) != ticks):
        return 0
    members = [pid for pid in group_members(leader) if _started(pid) >= ticks]
    return end_group(leader, grace) if members else 0


def _signal_all(leader: int, members: list[int], number: int) -> None:
    groups = {int(fields[2]) for pid in members if (fields := _stat_fields(pid))}
    for group in groups | {leader}:
        signal_group(group, number)


def signal_group(leader: int, number: int) -> None:
    """Signal a process group; one that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def holders(fds: list[int]) -> int:
    """How many other processes hold one of these pipes, as far as this user may look.

    After the end of a child and its group they are what left its session.
    """
    wanted = {f"pipe:[{os.fstat(fd).st_ino}]" for fd in fds}
    deadline = time.monotonic() + _SEARCH_SECONDS
    count = 0
    for pid in _pids():
        if time.monotonic() > deadline:
            break
        if pid != os.getpid() and any(link in wanted for link in _links(pid)):
            count += 1
    return count


def _gone_within(leader: int, seconds: float) -> bool:
    deadline = time.monotonic() + (seconds if _has_proc() else min(seconds, 0.2))
    while time.monotonic() < deadline:
        if _has_proc() and not group_members(leader):
            return True
        time.sleep(0.02)
    return False


def _has_proc() -> bool:
    return os.path.exists("/proc/self/stat")  # noqa: PTH110 - without importing pathlib


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    except OSError:
        return []


def _stat_fields(pid: int) -> list[bytes]:
    # The command's name may hold blanks and parentheses: what follows the last one is regular.
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _started(pid: int) -> int:
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else -1


def _links(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - as above
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"{folder}/{name}")  # noqa: PTH115 - as above
        except OSError:
            continue


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as above
            return file.read()
    except OSError:
        return b""
