"""Commands as a user runs them: in this process, in one of their own, and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from click.testing import CliRunner
from flask import Flask
from flask.cli import ScriptInfo

from flask_jobrunner.cli import jobs
from tests.helpers.hosts import HostEnvironment
from tests.helpers.waiting import eventually


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    exit_code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Commands:
    """Runs `flask jobs …` for one host application."""

    app: Flask
    environment: HostEnvironment

    def __call__(self, *arguments: object, given: str | bytes | None = None) -> Answer:
        """Run in this process."""
        result = CliRunner().invoke(
            jobs,
            [str(argument) for argument in arguments],
            input=given,
            obj=ScriptInfo(create_app=lambda: self.app, set_debug_flag=False),
            prog_name="flask jobs",
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    def process(
        self,
        *arguments: object,
        given: bytes = b"",
        environ: Mapping[str, str] = MappingProxyType({}),
        closed: str = "",
    ) -> Answer:
        """Run in a process of its own; `environ` is added to its environment.

        `closed` are a shell's words for what it begins without, such as `>&-`.
        """
        shell = ["sh", "-c", f'exec "$@" {closed}', "sh"] if closed else []
        done = subprocess.run(
            [*shell, *self.environment.command("jobs", *map(str, arguments))],
            input=given,
            capture_output=True,
            env={**os.environ, **environ},
            timeout=90,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def terminal(self, *arguments: object, columns: int = 80, **environ: str) -> Iterator[Terminal]:
        """Run on a terminal of its own."""
        argv = self.environment.command("jobs", *map(str, arguments))
        terminal = Terminal.start(argv, {**os.environ, "COLUMNS": str(columns), **environ})
        try:
            yield terminal
        finally:
            terminal.close()


# The first terminal that a session's leader opens becomes the one whose Ctrl-C reaches it.
_TAKE_TERMINAL = """
import os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass
class Terminal:
    """A process whose input and output are a terminal."""

    process: subprocess.Popen[bytes]
    descriptor: int
    seen: str = ""

    @classmethod
    def start(cls, argv: list[str], environ: dict[str, str]) -> Terminal:
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *argv],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environ,
            start_new_session=True,
        )
        os.close(follower)
        return cls(process, leader)

    def read(self) -> str:
        """Everything printed so far, without carriage returns."""
        while select.select([self.descriptor], [], [], 0)[0]:
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            self.seen += data.decode("utf-8", "replace").replace("\r", "")
        return self.seen

    def shows(self, text: str, *, timeout: float = 60) -> None:
        """Wait until `text` was printed."""
        eventually(lambda: text in self.read(), timeout=timeout, message=lambda: self.seen)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self.descriptor, b"\x03")

    def hang_up(self, *, timeout: float = 60) -> None:
        """Close the window: whoever is there gets SIGHUP, and reads and writes nowhere."""
        os.close(self.descriptor)
        eventually(lambda: self.process.poll() is not None, timeout=timeout)

    def exit_code(self, *, timeout: float = 60) -> int:
        """Wait for the end."""
        eventually(self._ended, timeout=timeout, message=lambda: f"it goes on: {self.seen}")
        return int(self.process.returncode)

    def close(self) -> None:
        """End what still runs."""
        if not self._ended():
            self.process.kill()
            self.process.wait()
        os.close(self.descriptor)

    def _ended(self) -> bool:
        self.read()
        return self.process.poll() is not None
