"""The one thread of a web process that listens to all its shims and waits for their ends.

There is no SIGCHLD handler, which would belong to the server, and nothing but our own children is
waited for.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import selectors
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from typing import IO, Protocol, cast

from flask_jobrunner.protocol.messages import parse_message
from flask_jobrunner.protocol.report import REPORT_MAX_BYTES, ReportError, parse_report

RECEIPT = b"+"
RECORDERS = 4
_READ_BYTES = 65536
# A shim that closed its pipe is about to end: asked often at first, because a caller may wait.
_ENDING_PAUSE = 0.02
# EOF is how an end is noticed; this is for the day when somebody else holds the pipe open.
_ROUND_PAUSE = 5.0

log = logging.getLogger(__name__)


class Ear(Protocol):
    """Who is told what a shim says."""

    def heard_claim(self) -> None: ...

    def heard_refusal(self, code: str) -> None: ...

    def heard_end(self, report: bytes | None) -> None: ...


class Shim:
    """One shim and this process's ends of its pipes."""

    def __init__(
        self, process: subprocess.Popen[bytes], ear: Ear, on_report: Callable[[bytes], bool]
    ) -> None:
        self.process = process
        self.ear = ear
        self.on_report = on_report
        self.stdout = cast("IO[bytes]", process.stdout)
        self.silent = False
        self._stdin = cast("IO[bytes]", process.stdin)
        # Recorder threads write the receipt while the reaper closes: a closed number may already
        # be somebody else's file.
        self._lock = threading.Lock()
        self._held = bytearray()
        self._skipping = False
        self._reported = False
        os.set_blocking(self.stdout.fileno(), False)

    def write(self, data: bytes) -> None:
        """Write to the shim; one that is gone already will be heard of in another way."""
        with self._lock, contextlib.suppress(OSError):
            if not self._stdin.closed:
                os.write(self._stdin.fileno(), data)

    def read(self) -> list[bytes]:
        """The lines that are complete now; `silent` is set at the end of the pipe."""
        try:
            data = os.read(self.stdout.fileno(), _READ_BYTES)
        except BlockingIOError:
            return []
        self.silent = not data
        *lines, rest = (bytes(self._held) + data).split(b"\n")
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        self._held = bytearray(rest)
        if len(self._held) > REPORT_MAX_BYTES:
            self._skipping = True
        if self._skipping:
            self._held.clear()
        return [line + b"\n" for line in lines if len(line) < REPORT_MAX_BYTES]

    def understand(self, line: bytes) -> bool:
        """Tell what a line says; True when it is the first report. Anything else is noise."""
        message = parse_message(line)
        if message is not None:
            if message["type"] == "claimed":
                self.ear.heard_claim()
            elif message["type"] == "refused":
                self.ear.heard_refusal(message["code"])
            return False
        try:
            parse_report(line)
        except ReportError:
            return False
        first, self._reported = not self._reported, True
        if first:
            self.ear.heard_end(line)
        return first

    def hang_up(self) -> None:
        """Let the shim know that nobody will answer, so that it does not wait for a receipt."""
        with self._lock, contextlib.suppress(OSError):
            self._stdin.close()

    def has_ended(self) -> bool:
        """Whether the shim has ended; if so it is waited for, and no zombie remains."""
        return self.process.poll() is not None

    def close(self) -> None:
        """Close both pipes."""
        with self._lock:
            for pipe in (self._stdin, self.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()


class Recorder:
    """Runs what records reports: it talks to the database, and may wait for it.

    Not in the reaper's thread, because one slow database would keep every caller of this process
    from hearing of its claim. Not in one thread for all either: a shim waits ten seconds for its
    receipt, and apps in one process may have different databases. The threads end when there is
    nothing to do, and are daemons: an exiting server does not wait for a database; its shims see
    the closed pipe and have the report recorded by a command.
    """

    def __init__(self, limit: int = RECORDERS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` soon. Raises `RuntimeError` when no thread can be had for it."""
        with self._lock:
            self._waiting.append(work)
            if self._threads >= self._limit:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name="jobrunner-recorder", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
            raise

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                work = self._waiting.popleft()
            try:
                work()
            except BaseException:
                log.exception("a report could not be recorded by this process")


class Reaper:
    """Listens to shims in one daemon thread, which `start` brings back should it ever end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shims: set[Shim] = set()
        self._recorder = Recorder()
        self._thread: threading.Thread | None = None
        self._selector: selectors.BaseSelector | None = None
        self._wake: tuple[int, int] | None = None

    def start(self) -> None:
        """Make sure that the thread runs. Raises `RuntimeError` or `OSError` when it cannot."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            if self._wake is None:
                self._wake = os.pipe()
                for fd in self._wake:
                    os.set_blocking(fd, False)
            thread = threading.Thread(
                target=self._run, args=(self._wake[0],), name="jobrunner-reaper", daemon=True
            )
            thread.start()
            self._thread = thread

    def adopt(self, shim: Shim) -> None:
        """Listen to `shim` from now on, until it has been waited for."""
        with self._lock:
            self._shims.add(shim)
            wake = self._wake
        if wake is not None:
            with contextlib.suppress(BlockingIOError):  # full: it will wake anyway
                os.write(wake[1], b".")

    def abandon(self) -> None:
        """In a forked child: close what was inherited, wait for nobody."""
        for shim in self._shims:
            shim.process.returncode = 0  # not our child: Popen must not look for it
            for pipe in (shim.process.stdin, shim.process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._selector is not None:
            self._selector.close()
        for fd in self._wake or ():
            os.close(fd)

    def _run(self, wake: int) -> None:
        with selectors.DefaultSelector() as selector:
            self._selector = selector
            selector.register(wake, selectors.EVENT_READ)
            known: set[Shim] = set()
            while True:
                with self._lock:
                    shims = set(self._shims)
                for shim in shims - known:
                    selector.register(shim.stdout, selectors.EVENT_READ, shim)
                known = shims
                self._round(selector, known)

    def _round(self, selector: selectors.BaseSelector, known: set[Shim]) -> None:
        ending = [shim for shim in known if shim.silent]
        pause = _ENDING_PAUSE if ending else _ROUND_PAUSE
        ready = selector.select(pause if known else None)
        for key, _ in ready:
            if key.data is None:
                os.read(key.fd, _READ_BYTES)
            else:
                self._guarded(self._listen, key.data, selector)
        for shim in ending if ready else known:
            self._guarded(self._wait_for, shim, selector)

    def _listen(self, shim: Shim, selector: selectors.BaseSelector) -> None:
        for line in shim.read():
            if shim.understand(line):
                self._recorder.submit(functools.partial(_record, shim, line))
        if shim.silent:
            selector.unregister(shim.stdout)
            shim.ear.heard_end(None)

    def _wait_for(self, shim: Shim, selector: selectors.BaseSelector) -> None:
        if not shim.has_ended():
            return
        if not shim.silent:
            # It ended although the pipe is open: somebody else holds it. Nothing more will come.
            self._listen(shim, selector)
            if not shim.silent:
                selector.unregister(shim.stdout)
                shim.ear.heard_end(None)
        with self._lock:
            self._shims.discard(shim)
        shim.close()

    def _guarded(
        self,
        step: Callable[[Shim, selectors.BaseSelector], None],
        shim: Shim,
        selector: selectors.BaseSelector,
    ) -> None:
        try:
            step(shim, selector)
        except Exception:
            log.exception("listening to a job's parent process failed")
            shim.silent = True
            with contextlib.suppress(KeyError, ValueError):
                selector.unregister(shim.stdout)
            shim.ear.heard_end(None)


def _record(shim: Shim, line: bytes) -> None:
    if shim.on_report(line):
        shim.write(RECEIPT)
