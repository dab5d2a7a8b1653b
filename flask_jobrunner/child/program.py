"""`ctx.run()`: a program whose output is the job's, and which ends when the job should."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flask_jobrunner.model.errors import JobCancelled, ProgramFailed
from flask_jobrunner.model.records import NewLine
from flask_jobrunner.model.results import ProgramResult
from flask_jobrunner.protocol.encoding import clip_bytes
from flask_jobrunner.protocol.output import OutputParser
from flask_jobrunner.protocol.redact import LineMasker, mask_argv
from flask_jobrunner.protocol.terminal import strip_escapes

from .steady import Clock

OnLine = Callable[[str, str], object]
"""Given "stdout" or "stderr" and a line without its end."""
PathText = str | os.PathLike[str]

STOP_GRACE = 5.0
"""Seconds that a program has between TERM and KILL."""
LAST_LINES = 20
_LINE_BYTES = 500
_LOOK_EVERY = 0.2
_READ_BYTES = 64 << 10
_LEFT_BYTES = 1 << 20


class Records(Protocol):
    """Where its lines go."""

    step_key: str | None

    def record(self, line: NewLine) -> None:
        """Take one line."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """What to run."""

    argv: Sequence[PathText]
    cwd: PathText | None = None
    env: Mapping[str, str] | None = None
    input: str | bytes | None = None
    timeout: float | None = None


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Who hears of it: the job's log, the handler, and whether the job should stop."""

    sink: Records
    clock: Clock
    chunk_bytes: int
    redact_keys: Sequence[str]
    is_stopping: Callable[[], bool]
    on_line: OnLine | None = None
    sign: Callable[[], object] = lambda: None
    """Called for output of any kind, also before a line is whole."""


def run_program(command: Command, listener: Listener, *, check: bool) -> ProgramResult:
    """Run it to its end. Raises `ProgramFailed`, or `JobCancelled` when the job should stop."""
    program = Program(_words(command.argv), command, listener)
    try:
        program.run()
    finally:
        program.close()
    result = program.result()
    if check and result.returncode:
        raise program.failure(_how(result.returncode))
    return result


class Program:
    """One running program, in a process group of its own and in the job's session."""

    def __init__(self, words: list[str], command: Command, listener: Listener) -> None:
        self._name = Path(words[0]).name
        self._argv = mask_argv(words, listener.redact_keys)
        self._listener = listener
        self._on_line = listener.on_line
        self._timeout = command.timeout
        data = command.input
        self._input = memoryview(data.encode() if isinstance(data, str) else data or b"")
        self._parser = OutputParser(None, listener.chunk_bytes, redact_keys=None)
        self._maskers = {name: LineMasker(listener.redact_keys) for name in ("stdout", "stderr")}
        self._lines = 0
        self._last = deque[str](maxlen=LAST_LINES)
        self._process = self._start(words, command)
        self._began = listener.clock.monotonic()
        self._streams = {
            file.fileno(): name
            for name, file in (("stdout", self._process.stdout), ("stderr", self._process.stderr))
            if file is not None
        }
        for number in (*self._streams, *self._stdin()):
            os.set_blocking(number, False)
        self._pidfd = _pidfd(self._process.pid)

    def _start(self, words: list[str], command: Command) -> subprocess.Popen[bytes]:
        stdin = subprocess.DEVNULL if command.input is None else subprocess.PIPE
        try:
            return subprocess.Popen(
                words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=command.cwd,
                env=command.env,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            raise self.failure(_why(error, command.cwd)) from error

    # --- running ------------------------------------------------------------------------------

    def run(self) -> None:
        """Pass its output on until it has ended; end it when the job should stop."""
        clock, next_look = self._listener.clock.monotonic, 0.0
        while not self._has_ended():
            self._pump(_LOOK_EVERY)
            now = clock()
            late = self._timeout is not None and now - self._began >= self._timeout
            # It may have ended in time by itself, while `on_line` took longer.
            if late and not self._has_ended():
                self._end()
                raise self.failure(f"ran longer than {self._timeout:g} s and was ended", late=True)
            if now >= next_look:
                next_look = now + _LOOK_EVERY
                if self._listener.is_stopping():
                    self._end()
                    raise JobCancelled(f"The job was asked to stop while {self._name} ran.")
        self._read_the_rest()
        self._process.wait()

    def close(self) -> None:
        """Whatever happened: it does not run on, and none of its pipes stays open here."""
        self._on_line = None
        if self._process.returncode is None:
            self._end()
        for file in (self._process.stdin, self._process.stdout, self._process.stderr):
            if file is not None:
                with suppress(OSError):
                    file.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def result(self) -> ProgramResult:
        """How it ended."""
        return ProgramResult(
            returncode=self._process.returncode,
            lines=self._lines,
            seconds=self._listener.clock.monotonic() - self._began,
            last_lines=self._last_lines(),
        )

    def failure(self, what: str, *, late: bool = False) -> ProgramFailed:
        """The error for its end, with the last lines that it wrote."""
        process: subprocess.Popen[bytes] | None = getattr(self, "_process", None)
        text, lines = f"{self._name} {what}.", self._last_lines()
        if process is not None:
            last = "\n".join(lines)
            # A line of its own: lists and the job's last line show the first one alone.
            text += f"\nIts last lines:\n{last}" if last else " It wrote nothing."
        return ProgramFailed(
            text,
            argv=self._argv,
            returncode=None if process is None else process.returncode,
            last_lines=lines,
            timed_out=late,
        )

    def _has_ended(self) -> bool:
        # Left unreaped, so that its number stays taken while its group may still be signalled.
        if self._process.returncode is not None:
            return True
        try:
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, look) is not None
        except (ChildProcessError, AttributeError):
            return self._process.poll() is not None

    def _end(self) -> None:
        """TERM, CONT, a while, KILL; its output is read meanwhile, so that it can end."""
        self._on_line = None
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        give_up = self._listener.clock.monotonic() + STOP_GRACE
        while not self._has_ended() and self._listener.clock.monotonic() < give_up:
            self._pump(_LOOK_EVERY)
        # Also what it started and left behind: it was all asked to stop.
        self._signal(signal.SIGKILL)
        self._read_the_rest()
        self._process.wait()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
        # It may have left its group. Not waited for yet, its number is still its own.
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(self._process.pid) != self._process.pid:
                os.kill(self._process.pid, number)

    # --- its pipes ----------------------------------------------------------------------------

    def _stdin(self) -> tuple[int, ...]:
        file = self._process.stdin
        return () if file is None or file.closed else (file.fileno(),)

    def _pump(self, seconds: float) -> None:
        """Wait for output, for room to write, or for its end, and do what can be done."""
        poll = select.poll()
        for number in self._streams:
            poll.register(number, select.POLLIN)
        for number in self._stdin():
            poll.register(number, select.POLLOUT)
        if self._pidfd is not None:
            poll.register(self._pidfd, select.POLLIN)
        ready = dict(poll.poll(seconds * 1000))
        if self._stdin() and self._stdin()[0] in ready:
            self._write()
        for number in [number for number in self._streams if number in ready]:
            self._read(number)
        self._hand_on(self._parser.idle(self._listener.clock.now()))

    def _write(self) -> None:
        (number,), file = self._stdin(), self._process.stdin
        try:
            self._input = self._input[os.write(number, self._input[:_READ_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:
            self._input = self._input[:0]  # it does not want to know more
        if not self._input and file is not None:
            with suppress(OSError):
                file.close()

    def _read(self, number: int) -> int:
        try:
            data = os.read(number, _READ_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            del self._streams[number]
        else:
            at = self._listener.clock.now()
            self._listener.sign()
            self._hand_on(self._parser.feed(self._streams[number], data, at))
        return len(data)

    def _read_the_rest(self) -> None:
        # Never to the end of the pipe: what it left running may hold that open, and write on.
        for number in list(self._streams):
            taken = 0
            while taken < _LEFT_BYTES and (count := self._read(number)):
                taken += count
        self._hand_on(self._parser.close(self._listener.clock.now()))

    def _hand_on(self, lines: list[NewLine]) -> None:
        raised: BaseException | None = None
        for name, masker in self._maskers.items():
            own = [line for line in lines if line.stream == name]
            masked = masker.lines([line.message for line in own]) if own else []
            for line, message in zip(own, masked, strict=True):
                self._record(line, message)
                try:
                    if self._on_line is not None:
                        self._on_line(line.stream, line.message)
                except BaseException as error:  # noqa: BLE001 - raised once all is in the log
                    raised, self._on_line = error, None
        if raised is not None:
            raise raised

    def _record(self, line: NewLine, message: str) -> None:
        sink = self._listener.sink
        sink.record(line._replace(message=message, step_key=sink.step_key))
        self._lines += 1
        self._last.append(message)

    def _last_lines(self) -> tuple[str, ...]:
        texts = (clip_bytes(strip_escapes(text).strip(), _LINE_BYTES) for text in self._last)
        return tuple(text for text in texts if text)


def _words(argv: Sequence[PathText]) -> list[str]:
    if isinstance(argv, (str, bytes)):
        raise TypeError('ctx.run() takes a list of words, ["ls", "-l"]: no shell reads them.')
    words = [os.fsdecode(word) for word in argv]
    if not words or not words[0]:
        raise ValueError("ctx.run() needs a program to run.")
    return words


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _how(returncode: int) -> str:
    if returncode > 0:
        return f"ended with exit code {returncode}"
    with suppress(ValueError):
        return f"was ended by signal {-returncode} ({signal.Signals(-returncode).name})"
    return f"was ended by signal {-returncode}"


def _why(error: OSError, cwd: PathText | None) -> str:
    if cwd is not None and not Path(cwd).is_dir():
        return f"could not be started: there is no folder {os.fspath(cwd)}"
    if isinstance(error, FileNotFoundError):
        return "was not found; it must be installed where jobs run, and on their PATH"
    return f"could not be started: {error.strerror or type(error).__name__}"
