"""The pipes a child is given, and its start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PIPES_VARIABLE = "JOBRUNNER_PIPES"
FAULT_NAME = "jobrunner-fault"  # what `flask jobs show --stack` looks for
# A user's pipes share a budget in the kernel (64 MiB unless root); past it every new pipe of that
# user shrinks to a page or two. A quarter of a megabyte each leaves room for a hundred jobs.
PIPE_BYTES = 256 * 1024
_SMALLEST_KNOWN_PIPE = 16 * 1024
_SET_SIZE: int | None = getattr(fcntl, "F_SETPIPE_SZ", None)
_GET_SIZE: int | None = getattr(fcntl, "F_GETPIPE_SZ", None)


def unread(fd: int) -> int:
    """How many bytes wait in a pipe."""
    count = bytearray(4)
    try:
        fcntl.ioctl(fd, termios.FIONREAD, count)
    except OSError:
        return 0
    return int.from_bytes(count, sys.byteorder)


def capacity(fd: int) -> int:
    """How many bytes fit into a pipe."""
    try:
        return fcntl.fcntl(fd, _GET_SIZE) if _GET_SIZE is not None else _SMALLEST_KNOWN_PIPE
    except OSError:
        return _SMALLEST_KNOWN_PIPE


def anonymous_file(name: str = "jobrunner") -> int:
    """A file without a name, for what must not end up on a disk; close-on-exec."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.memfd_create(name)
    folder = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - created exclusively, unlinked at once
    path = f"{folder}/{name}-{os.getpid()}-{os.urandom(8).hex()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)  # noqa: PTH108 - pathlib would be the heaviest import of this process
    return fd


class Pipes:
    """Both ends of everything between a parent and its child.

    `control` carries the envelope and drained output down, `ack` the child's messages up, `out`
    and `err` are what the child prints, `fault` is a file for faulthandler. The parent's reading
    ends never block.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        try:
            self.control_r, self.control_w = self._pair()
            self.ack_r, self.ack_w = self._pair()
            self.out_r, self.out_w = self._pair(PIPE_BYTES)
            self.err_r, self.err_w = self._pair(PIPE_BYTES)
            self.fault = self._kept(anonymous_file(FAULT_NAME))
            self.out = self._kept(_own_reader(self.out_r))
            self.err = self._kept(_own_reader(self.err_r))
        except OSError:
            self.close()
            raise
        os.set_blocking(self.control_w, False)
        os.set_blocking(self.ack_r, False)

    def shared(self) -> tuple[int, ...]:
        """What the child finds in JOBRUNNER_PIPES, in this order."""
        return self.ack_w, self.out_r, self.err_r, self.fault

    def release_child_ends(self) -> None:
        """Close what only the child needs. `control_r` stays: it shows what was never read."""
        for fd in (self.ack_w, self.out_r, self.out_w, self.err_r, self.err_w):
            self._open.discard(fd)
            os.close(fd)

    def hang_up(self) -> None:
        """Let the child's input end."""
        if self.control_w in self._open:
            self._open.discard(self.control_w)
            os.close(self.control_w)

    def close(self) -> None:
        """Close whatever is still open."""
        while self._open:
            os.close(self._open.pop())

    def _pair(self, size: int | None = None) -> tuple[int, int]:
        reader, writer = os.pipe()
        self._open |= {reader, writer}
        if size is not None and _SET_SIZE is not None:
            with contextlib.suppress(OSError):  # over the user's budget: the usual size does too
                fcntl.fcntl(writer, _SET_SIZE, size)
        return reader, writer

    def _kept(self, fd: int) -> int:
        self._open.add(fd)
        return fd


def _own_reader(fd: int) -> int:
    # O_NONBLOCK belongs to the open file, which the child shares through `fd`: opened again, the
    # pipe is the same and the flag is ours alone. Where that is impossible the child copes.
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        os.set_blocking(fd, False)
        return os.dup(fd)


def start_child(argv: Sequence[str], environ: Mapping[str, str], pipes: Pipes) -> int:
    """The pid of `argv` in a session of its own, with `pipes`. Raises `OSError`."""
    shared = pipes.shared()
    for fd in shared:
        os.set_inheritable(fd, True)  # noqa: FBT003 - the standard library takes no keyword
    try:
        return os.posix_spawnp(
            argv[0],
            list(argv),
            {**environ, PIPES_VARIABLE: ",".join(str(fd) for fd in shared)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, pipes.control_r, 0),
                (os.POSIX_SPAWN_DUP2, pipes.out_w, 1),
                (os.POSIX_SPAWN_DUP2, pipes.err_w, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=catchable_signals(),
        )
    finally:
        os.set_inheritable(pipes.fault, False)  # noqa: FBT003 - as above
        pipes.release_child_ends()


def catchable_signals() -> set[int]:
    """Every signal whose effect a process may choose, and so may have inherited as ignored."""
    return {int(one) for one in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP}
