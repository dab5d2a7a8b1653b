"""Launching real shims with fake children, and programs in a shim's place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flask_jobrunner.caller.launch import LaunchCommand, LaunchHandle, launcher
from flask_jobrunner.protocol.command import child_environment, shim_command
from tests.helpers.shims import (
    ENVELOPE,
    UUID,
    fake_child,
)


class Recorded:
    """Stands for the database: keeps reports and answers as it is told."""

    def __init__(self, answer: bool | Exception = True) -> None:
        self.answer = answer
        self.lines: list[bytes] = []

    def __call__(self, line: bytes) -> bool:
        self.lines.append(line)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def settings_of(folder: Path, claim_window: float = 20.0) -> str:
    values = {"uuid": UUID, "attempt": 1, "spool": str(folder / "spool")}
    return json.dumps({**values, "claim_window": claim_window})


class Launching:
    """One launcher, and the commands a test gives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launcher = launcher()
        self.recorded = Recorded()

    def child(self, run: str, settle: str = "", **options: Any) -> LaunchHandle:
        """Launch a real shim with a fake child."""
        return self.command(fake_child(self.folder, run, settle), **options)

    def command(
        self,
        command: Sequence[str],
        *,
        on_report: Callable[[bytes], bool] | None = None,
        claim_window: float = 20.0,
    ) -> LaunchHandle:
        """Launch a real shim with this command."""
        argv = tuple(shim_command(settings_of(self.folder, claim_window), command))
        return self._launch(argv, on_report)

    def fake_shim(
        self, code: str, on_report: Callable[[bytes], bool] | None = None
    ) -> LaunchHandle:
        """Launch a program in the shim's place."""
        preamble = "import json, os, sys, time\nline = sys.stdin.buffer.readline()\n"
        argv = (sys.executable, "-I", "-S", "-c", preamble + code, str(self.folder))
        return self._launch(argv, on_report)

    def _launch(
        self, argv: tuple[str, ...], on_report: Callable[[bytes], bool] | None
    ) -> LaunchHandle:
        command = LaunchCommand(argv=argv, env=child_environment(os.environ))
        return self.launcher.launch(command, ENVELOPE, on_report or self.recorded)

    def idle(self) -> bool:
        return not self.launcher._reaper._shims
