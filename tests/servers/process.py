"""A server that belongs to this test run and ends with it, however the run ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.waiting import eventually

STOP_TIMEOUT = 15.0


class ServerFailed(Exception):
    """The server ended by itself, or did not answer in time."""


@dataclass
class ServerProcess:
    """One running program: started once, answering, stopped by its own handle."""

    process: subprocess.Popen[bytes]
    log: Path
    stop_signal: signal.Signals
    owner_pid: int = field(default_factory=os.getpid)

    def stop(self) -> None:
        """Ask, wait, then kill. In a fork of the test process this does nothing."""
        if os.getpid() != self.owner_pid or self.process.poll() is not None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_TIMEOUT)

    def log_tail(self, size: int = 4000) -> str:
        """The last words the program wrote."""
        return self.log.read_bytes()[-size:].decode("utf-8", "replace") if self.log.exists() else ""


def start(
    argv: Sequence[str | Path],
    *,
    log: Path,
    answers: Callable[[], bool],
    timeout: float = 60.0,
    stop_signal: signal.Signals = signal.SIGTERM,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    unprivileged: bool = False,
) -> ServerProcess:
    """Start `argv`, wait until it `answers`, and see to it that it is stopped at exit.

    With `unprivileged` it runs as nobody when the tests run as root. Raises ServerFailed.
    """
    server = ServerProcess(_spawn(argv, log, env, cwd, unprivileged), log, stop_signal)
    atexit.register(server.stop)

    def answered_or_ended() -> bool:
        return server.process.poll() is not None or answers()

    try:
        eventually(answered_or_ended, timeout=timeout, message=f"{argv[0]} answers")
    except AssertionError as error:
        server.stop()
        raise ServerFailed(f"{error}\n{server.log_tail()}") from None
    if server.process.poll() is not None:
        code = server.process.returncode
        raise ServerFailed(f"{argv[0]} ended with {code}:\n{server.log_tail()}")
    return server


def on_free_port(launch: Callable[[int], ServerProcess]) -> tuple[int, ServerProcess]:
    """Start on a port that was free, again on another when somebody took it meanwhile."""
    for _ in range(2):
        port = free_port()
        try:
            return port, launch(port)
        except ServerFailed as error:
            if "in use" not in str(error):
                raise
    port = free_port()
    return port, launch(port)


def run(argv: Sequence[str | Path], *, log: Path, timeout: float = 120.0) -> None:
    """Run a preparing command, unprivileged, to its end; raises ServerFailed."""
    process = _spawn(argv, log, None, None, True)
    try:
        code = process.wait(timeout)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code != 0:
        text = log.read_text(encoding="utf-8", errors="replace")[-4000:]
        raise ServerFailed(f"{argv[0]} ended with {code}:\n{text}")


def private_directory(name: str) -> Path:
    """A new directory for a server's data, its owner the user the server will run as.

    Its path is short, since a socket in it may have 107 characters, and it is not below
    pytest's own directories, which nobody but root may enter when root runs the tests.
    """
    for left in Path(tempfile.gettempdir()).glob(f"jobrunner-{name}-*-*"):
        _remove_if_forgotten(left)
    path = Path(tempfile.mkdtemp(prefix=f"jobrunner-{name}-{os.getpid()}-"))
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        os.chown(path, user.pw_uid, user.pw_gid)
    atexit.register(_remove, path, os.getpid())
    return path


def free_port() -> int:
    """A loopback TCP port that nobody listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _spawn(
    argv: Sequence[str | Path],
    log: Path,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    unprivileged: bool,
) -> subprocess.Popen[bytes]:
    user = pwd.getpwnam("nobody") if unprivileged and os.geteuid() == 0 else None
    # Set by a program between, since Python code after a fork may hang where threads run,
    # and after the change of user, which would clear it.
    setpriv = shutil.which("setpriv")
    die_with_the_tests = [] if setpriv is None else [setpriv, "--pdeathsig", "KILL", "--"]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*die_with_the_tests, *map(str, argv)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd or "/",
            start_new_session=True,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )


def _remove_if_forgotten(path: Path) -> None:
    """Remove what a run left behind that was killed; its servers have died with it."""
    owner = path.name.split("-")[2]
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        shutil.rmtree(path, ignore_errors=True)
    except (PermissionError, ValueError):
        return


def _remove(path: Path, owner_pid: int) -> None:
    if os.getpid() == owner_pid:
        shutil.rmtree(path, ignore_errors=True)
