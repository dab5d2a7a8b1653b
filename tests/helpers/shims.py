"""Shims with tiny fake children that speak the protocol by hand.

The same scenario runs twice: with the shim as the process that it is in real life, and with its
code in a thread of the test, where coverage and monkeypatch reach it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from flask_jobrunner.protocol.command import child_environment, shim_command
from flask_jobrunner.protocol.report import EndReport, parse_report
from flask_jobrunner.shim import __main__ as shim_main
from tests.helpers.processes import look_at
from tests.helpers.waiting import eventually

UUID = "01890000-0000-7000-8000-0000000000aa"
CREDENTIAL = "c0ffee" * 10 + "beef"
ENVELOPE = json.dumps({"job_uuid": UUID, "attempt": 1, "credential": CREDENTIAL}).encode() + b"\n"

# What every fake child can do. `run` is its body; `settle` is appended to by the command.
PREAMBLE = """
import json, os, signal, sys, time
HERE = os.path.dirname(os.path.abspath(__file__))
UUID = sys.argv[-1]
PIPES = os.environ.pop("JOBRUNNER_PIPES", "")
ack, out, err, fault = [int(number) for number in PIPES.split(",")] if PIPES else [-1] * 4

def say(kind, **values):
    raw(json.dumps({"v": 1, "type": kind, **values}).encode() + b"\\n")

def raw(data):
    while data:
        data = data[os.write(ack, data):]

def note(name, value):
    with open(os.path.join(HERE, name), "a") as file:
        file.write(json.dumps(value) + "\\n")

def envelope():
    line = b""
    while not line.endswith(b"\\n"):
        line += os.read(0, 1)
    return line

def claim(**more):
    envelope()
    say("booted")
    say("claimed", **{"uuid": UUID, "attempt": 1, "token": "t" * 32, "nonce": "0" * 16, **more})

def forever():
    while True:
        time.sleep(60)

note("pids", [os.getpid(), sys.argv[-2]])
if "settle" in sys.argv:
    note("settles", {"argv": sys.argv[1:], "stdin": sys.stdin.read(), "pipes": PIPES})
    exec(open(os.path.join(HERE, "settle.py")).read())
    sys.exit(0)
"""


def fake_child(folder: Path, run: str, settle: str = "") -> list[str]:
    """The command of a child with the body `run`; `settle` is what its settle does."""
    script = folder / "child.py"
    script.write_text(PREAMBLE + run + "\n", encoding="utf-8")
    (folder / "settle.py").write_text(settle + "\n", encoding="utf-8")
    return [sys.executable, "-I", "-S", str(script)]


def noted(folder: Path, name: str) -> list[Any]:
    """What fake children wrote with `note`."""
    try:
        text = (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


def end_if_ours(pid: int, folder: Path) -> None:
    """Kill a process that a test left over, if it still is the one that was started there."""
    seen = look_at(pid)
    if seen is not None and not seen.is_zombie and str(folder) in seen.command:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def child_pid(folder: Path) -> int:
    """The pid of the child, once it runs."""
    found = eventually(lambda: [pid for pid, verb in noted(folder, "pids") if verb == "run"])
    return int(found[-1])


class Launched:
    """The launcher's side of one shim, driven by the test."""

    def __init__(self, down: int, up: int) -> None:
        self.down: int | None = down
        self.up: int | None = up
        self.lines: list[bytes] = []
        self._held = b""
        os.set_blocking(up, False)

    def write(self, data: bytes) -> None:
        """Write to the shim."""
        if self.down is not None:
            os.write(self.down, data)

    def message(self, kind: str, timeout: float = 40.0) -> dict[str, Any]:
        """The first message of this kind, waited for."""
        return eventually(
            lambda: self._find(kind) or {},
            timeout=timeout,
            message=lambda: f"{kind} after {self.lines[-5:]}",
        )

    def report(self, timeout: float = 40.0) -> EndReport:
        """The report, waited for; everything relayed is in `lines` then."""
        self.message("report", timeout)
        return parse_report(self.lines[-1])

    def relayed(self) -> list[str]:
        """The types of all lines so far."""
        self._read()
        return [json.loads(line)["type"] for line in self.lines]

    def receive(self) -> None:
        """Say that the report is recorded."""
        self.write(b"+")

    def hang_up(self) -> None:
        """Be gone, as a killed launcher is."""
        for fd in (self.down, self.up):
            if fd is not None:
                os.close(fd)
        self.down = self.up = None

    def join(self, timeout: float = 40.0) -> int:
        """Wait for the shim's end; its exit code."""
        raise NotImplementedError

    def _find(self, kind: str) -> dict[str, Any] | None:
        self._read()
        for line in self.lines:
            message: dict[str, Any] = json.loads(line)
            if message["type"] == kind:
                return message
        return None

    def _read(self) -> None:
        while self.up is not None:
            try:
                data = os.read(self.up, 65536)
            except BlockingIOError:
                return
            if not data:
                return
            *whole, self._held = (self._held + data).split(b"\n")
            self.lines += [line + b"\n" for line in whole]


class ProcessShim(Launched):
    """The shim as a process."""

    def __init__(self, argv: list[str], environ: Mapping[str, str], **options: Any) -> None:
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            bufsize=0,
            start_new_session=True,
            **options,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        super().__init__(os.dup(self.process.stdin.fileno()), os.dup(self.process.stdout.fileno()))
        self.process.stdin.close()
        self.process.stdout.close()

    def join(self, timeout: float = 40.0) -> int:
        return self.process.wait(timeout)


class ThreadShim(Launched):
    """The shim's code in a thread of this process."""

    def __init__(self, argv: list[str], environ: Mapping[str, str]) -> None:
        down, self._down = os.pipe()[::-1]
        self._up, up = os.pipe()[::-1]
        super().__init__(down, up)
        self._code: int | None = None
        self._thread = threading.Thread(target=self._run, args=(argv, environ), daemon=True)
        self._thread.start()

    def _run(self, argv: list[str], environ: Mapping[str, str]) -> None:
        try:
            self._code = shim_main.main(argv, environ, down=self._down, up=self._up)
        finally:
            os.close(self._down)
            os.close(self._up)

    def join(self, timeout: float = 40.0) -> int:
        self._thread.join(timeout)
        assert self._code is not None, "the shim's thread did not end"
        return self._code


class Launch(Protocol):
    """Starts a shim with a command."""

    def __call__(
        self,
        command: list[str],
        *,
        claim_window: float = ...,
        envelope: bytes = ...,
        spool: Path | None = ...,
        environ: Mapping[str, str] | None = ...,
    ) -> Launched: ...


@contextlib.contextmanager
def launching(folder: Path, make: Callable[..., Launched]) -> Iterator[Launch]:
    """A `Launch` whose shims have all ended, and their children too, when the block is left."""
    started: list[Launched] = []

    def launch(
        command: list[str],
        *,
        claim_window: float = 20.0,
        envelope: bytes = ENVELOPE,
        spool: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Launched:
        settings = json.dumps(
            {
                "uuid": UUID,
                "attempt": 1,
                "claim_window": claim_window,
                "spool": str(spool or folder / "spool"),
            }
        )
        argv = shim_command(settings, command)
        if make is ThreadShim:
            argv = argv[argv.index(settings) :]
        shim = make(argv, child_environment(os.environ if environ is None else environ))
        started.append(shim)
        if envelope:
            shim.write(envelope)
        return shim

    try:
        yield launch
    finally:
        for pid, _ in noted(folder, "pids"):
            end_if_ours(pid, folder)
        for shim in started:
            with contextlib.suppress(OSError):
                shim.receive()
            shim.hang_up()
            shim.join(30)
