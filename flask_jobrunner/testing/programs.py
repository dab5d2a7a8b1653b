"""What programs answer that a test does not want to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flask_jobrunner.model.errors import ProgramFailed
from flask_jobrunner.model.results import ProgramResult


@dataclass(frozen=True, kw_only=True)
class FakeProgram:
    """How a program of `ctx.run()` ends: its output, then its exit code.

    `timed_out` ends it as `timeout=` does, and `missing` as where there is no such program.
    """

    stdout: str = ""
    stderr: str = ""
    returncode: int = 0
    timed_out: bool = False
    missing: bool = False

    def play(
        self, argv: tuple[str, ...], hear: Callable[[str, str], None], *, check: bool
    ) -> ProgramResult:
        """Say the lines and end. Raises `ProgramFailed` as the real program would."""
        if self.missing:
            raise ProgramFailed(f"{argv[0]} could not be started: there is no such file", argv=argv)
        said = [("stdout", line) for line in self.stdout.splitlines()]
        said += [("stderr", line) for line in self.stderr.splitlines()]
        for stream, line in said:
            hear(stream, line)
        last = tuple(line for _, line in said[-20:])
        if self.timed_out or (check and self.returncode):
            how = (
                "ran too long and was ended" if self.timed_out else f"ended with {self.returncode}"
            )
            raise ProgramFailed(
                f"{argv[0]} {how}",
                argv=argv,
                returncode=None if self.timed_out else self.returncode,
                last_lines=last,
                timed_out=self.timed_out,
            )
        return ProgramResult(
            returncode=self.returncode, lines=len(said), seconds=0.0, last_lines=last
        )


def program_for(programs: Mapping[str, FakeProgram], argv: tuple[str, ...]) -> FakeProgram:
    """The program that `argv` names, by its path or its name; one that is not there is a mistake
    of the test's, so that none is run by accident."""
    for name in (argv[0], Path(argv[0]).name):
        if name in programs:
            return programs[name]
    known = ", ".join(sorted(programs)) or "none"
    raise AssertionError(f"ctx.run() was asked for {argv[0]}; the test has programs for: {known}.")
