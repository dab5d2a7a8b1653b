"""Getting the report to the database: through the launcher, by `settle`, or as a file."""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ENVELOPE_BYTES = 4096
RECEIPT = b"+"
RECEIPT_WAIT = 10.0  # seconds
SETTLE_PAUSES = (0.0, 1.0, 2.0)  # seconds before each try
SETTLE_TIMEOUT = 60.0
_UPWARD_BYTES = 64 * 1024


class Upstream:
    """The launcher's two pipes. It may stop to read, or be gone: nothing here waits for it."""

    def __init__(self, down: int, up: int) -> None:
        self.down = down
        self.up = up
        self.gone = False
        self.received = b""
        self._deaf = False
        self._pending = bytearray()
        os.set_blocking(down, False)
        os.set_blocking(up, False)

    def first_line(self, seconds: float) -> bytes | None:
        """The envelope; None when the launcher ended before it was whole, or wrote too much."""
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n") and len(line) < ENVELOPE_BYTES and not self.gone:
            if not poll({self.down: select.POLLIN}, deadline - time.monotonic()):
                return None
            # Byte by byte would be slow, and there is nothing behind the line yet.
            self._receive()
            line, self.received = line + self.received, b""
        return line if line.endswith(b"\n") and len(line) <= ENVELOPE_BYTES else None

    def relay(self, line: bytes) -> None:
        """Pass a message on; past the limit, with a launcher that does not read, it is dropped."""
        if len(self._pending) + len(line) <= _UPWARD_BYTES:
            self.send(line)

    def send(self, line: bytes) -> None:
        """Send a line as soon as the launcher reads."""
        self._pending += line
        self._flush()

    def interest(self) -> dict[int, int]:
        """What to poll for, by fd."""
        wanted = {} if self.gone else {self.down: select.POLLIN}
        if self._pending and not self._deaf:
            wanted[self.up] = select.POLLOUT
        return wanted

    def step(self, ready: Mapping[int, int]) -> None:
        """Read and write what is possible."""
        if self.down in ready:
            self._receive()
        if self.up in ready:
            self._flush()

    def wait_for_receipt(self, seconds: float) -> bool:
        """Whether the launcher said that the report is recorded."""
        deadline = time.monotonic() + seconds
        while RECEIPT not in self.received:
            left = deadline - time.monotonic()
            if self.gone or self._deaf or left <= 0:
                return False
            self.step(poll(self.interest(), left))
        return True

    def _receive(self) -> None:
        try:
            data = os.read(self.down, ENVELOPE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.received = (self.received + data)[-ENVELOPE_BYTES - 1 :]
        self.gone = not data

    def _flush(self) -> None:
        while self._pending and not self._deaf:
            try:
                count = os.write(self.up, self._pending)
            except BlockingIOError:
                return
            except OSError:
                self._deaf = True
                return
            del self._pending[:count]


def poll(interest: Mapping[int, int], seconds: float) -> dict[int, int]:
    """Which fds are ready, waiting at most so long."""
    poller = select.poll()
    for fd, events in interest.items():
        poller.register(fd, events)
    return dict(poller.poll(max(0.0, seconds) * 1000))


def deliver(
    line: bytes,
    *,
    upstream: Upstream,
    settle: Callable[[], bool],
    spool: Callable[[], bool],
) -> bool:
    """Have the report recorded, or at least kept; False when nobody and nothing took it."""
    upstream.received = b""
    upstream.send(line)
    if upstream.wait_for_receipt(RECEIPT_WAIT):
        return True
    for pause in SETTLE_PAUSES:
        time.sleep(pause)
        if settle():
            return True
    return spool()


def settle(argv: Sequence[str], environ: Mapping[str, str], report: int) -> bool:
    """Run the command that records a report, which it reads from the file `report`."""
    os.lseek(report, 0, os.SEEK_SET)
    try:
        pid = os.posix_spawnp(
            argv[0],
            list(argv),
            dict(environ),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, report, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE),
        )
    except OSError:
        return False
    return _exit_code(pid, SETTLE_TIMEOUT) == 0


def spool(folder: str, name: str, line: bytes) -> bool:
    """Keep the report as a file that appears whole or not at all, readable by its owner only."""
    path = f"{folder}/{name}.json"
    temporary = f"{folder}/.{name}.{os.getpid()}.tmp"
    try:
        if not os.path.isdir(folder):  # noqa: PTH112 - without importing pathlib
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - as above
            os.chmod(folder, 0o700)  # noqa: PTH101 - whatever the umask was
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
            _write_all(fd, line)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)  # noqa: PTH104 - as above
        _sync_folder(folder)
    except OSError:
        return False
    return True


def _exit_code(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
