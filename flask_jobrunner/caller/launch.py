"""Starting the process that starts a job, and hearing from it.

One `Launcher` serves a whole process, whatever apps it holds: see `launcher`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from flask_jobrunner.model.errors import LaunchError
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.protocol.output import OutputParser
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.protocol.report import parse_report

from .reaper import Reaper, Shim
from .server import threads_rest

Answer = Literal["claimed", "refused", "ended", "waiting"]
LAST_WORDS_CHARACTERS = 8000


@dataclass(frozen=True, kw_only=True)
class LaunchCommand:
    """How to start a shim: its argv holds no secret, `cwd` None is this process's folder."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None


class LaunchHandle:
    """What one launch has told so far. Nothing here is proof: the row decides."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        """Of the shim; it may be gone by now, so it is for showing only, never for signals."""
        self.refusal: str | None = None
        """The code with which the child refused to claim."""
        self.report: bytes | None = None
        """The line that says how the child ended; None also when the shim died without one."""
        self._claimed = False
        self._ended = False
        self._changed = threading.Condition()

    def wait(self, seconds: float) -> Answer:
        """Wait for the claim or the end, at most so long.

        `refused` comes once the child has ended too, or the time is over; `ended` says that the
        child ended, or its shim did, before a claim was heard of. `waiting`: neither is known.
        """
        with self._changed:
            longest = min(max(0.0, seconds), threading.TIMEOUT_MAX)
            self._changed.wait_for(lambda: self._claimed or self._ended, longest)
            if self._claimed:
                return "claimed"
            if self.refusal is not None:
                return "refused"
            return "ended" if self._ended else "waiting"

    @property
    def last_words(self) -> str:
        """The end of what the child printed and nobody read: masked, at most 8,000 characters."""
        try:
            return _last_words(self.report) if self.report is not None else ""
        except ValueError:
            return ""

    def heard_claim(self) -> None:
        """The child says that its claim is committed."""
        self._change(lambda: setattr(self, "_claimed", True))

    def heard_refusal(self, code: str) -> None:
        """The child says why it will not claim."""
        self._change(lambda: setattr(self, "refusal", code))

    def heard_end(self, report: bytes | None) -> None:
        """The child ended and the shim reports; None: the shim ended without a report."""

        def note() -> None:
            self.report = self.report or report
            self._ended = True

        self._change(note)

    def _change(self, note: Callable[[], None]) -> None:
        with self._changed:
            note()
            self._changed.notify_all()


class Launcher:
    """Starts shims and has one thread listen to all of them."""

    def __init__(self) -> None:
        self._reaper = Reaper()
        self._pid = os.getpid()
        _launchers.add(self)

    def launch(
        self,
        command: LaunchCommand,
        envelope_line: bytes,
        on_report: Callable[[bytes], bool],
    ) -> LaunchHandle:
        """Start a shim and give it the envelope; returns as soon as it runs.

        `on_report` is called with the report in a thread of its own, maybe hours later, and
        returns True once that is committed; only then is the shim told. Where threads rest between
        requests it is never called, and the shim has its report recorded by a command. Raises
        `LaunchError` with the system's words when no process can be started.
        """
        if self._pid != os.getpid():
            # Forked in C, as uWSGI does, and no hook of Python's has run.
            self.forget_after_fork()
        rest = threads_rest()
        try:
            self._reaper.start()
            process = _start(command)
        except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
            raise LaunchError(f"{command.argv[0]} could not be started: {error}") from error
        handle = LaunchHandle(process.pid)
        shim = Shim(process, handle, _not_here if rest else on_report)
        self._reaper.adopt(shim)
        fault_point("submit.spawned")
        shim.write(envelope_line)
        if rest:
            shim.hang_up()
        return handle

    def forget_after_fork(self) -> None:
        """In a forked child: the shims are not this process's, nor is the thread."""
        self._pid = os.getpid()
        self._reaper.abandon()
        self._reaper = Reaper()


def launcher() -> Launcher:
    """This process's launcher, made when it is first needed; a forked process gets its own."""
    global _shared  # noqa: PLW0603 - one thread for all apps of the process
    with _making:
        if _shared is None:
            _shared = Launcher()
        return _shared


def _start(command: LaunchCommand) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command.argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(command.env),
        cwd=command.cwd,
        bufsize=0,
        close_fds=True,
        start_new_session=True,
    )


def _not_here(_: bytes) -> bool:
    """Record nothing: a thread that comes to rest in a transaction would keep its locks."""
    return False


def _last_words(line: bytes) -> str:
    report = parse_report(line)
    parser = OutputParser(report.nonce)
    parts = [mask_text(report.spawn_error)] if report.spawn_error else []
    for stream, data in zip(("stdout", "stderr"), report.output(), strict=True):
        dropped = getattr(report, f"{stream}_dropped")
        if dropped:
            parts.append(f"[{dropped} bytes of {stream} before this were dropped]")
        parts += [line.message for line in parser.feed(stream, data, None)]
    parts += [line.message for line in parser.close()]
    parts += [mask_text(report.fault.strip())] if report.fault.strip() else []
    return "\n".join(parts)[-LAST_WORDS_CHARACTERS:]


_making = threading.Lock()
_shared: Launcher | None = None
_launchers: weakref.WeakSet[Launcher] = weakref.WeakSet()


def _after_fork() -> None:
    global _making  # noqa: PLW0603 - another thread may have held it
    _making = threading.Lock()
    for one in list(_launchers):
        with contextlib.suppress(Exception):
            one.forget_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
