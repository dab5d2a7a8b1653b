"""What a job of the tests' host application can be told to do, one small act at a time.

A payload is a script: `{"do": [["print", "hello"], ["pause", 0.5], ["return", 42]]}`, which
`script(("print", "hello"), ("pause", 0.5), ("return", 42))` makes.
"""

from __future__ import annotations

import asyncio
import builtins
import ctypes
import datetime as dt
import decimal
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from flask_jobrunner import JobCancelled, JobContext

POLL = 0.02


class Returned(Exception):
    """Carries the value of a `return` act out of the script."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class OwnBaseException(BaseException):
    """One that `except Exception` does not see."""


def script(*acts: tuple[Any, ...], ledger: Path | None = None) -> dict[str, Any]:
    """The payload of a `host.script` job. `ledger`: a file that tells each start and end."""
    payload: dict[str, Any] = {"do": [list(act) for act in acts]}
    return payload | ({"ledger": str(ledger)} if ledger is not None else {})


def perform(ctx: JobContext) -> Any:
    """Run the script in the payload; the value of its `return`, else None."""
    payload = ctx.payload or {}
    ledger = payload.get("ledger")
    if ledger:
        note(ledger, f"start {ctx.attempt} {os.getpid()}")
    try:
        for name, *arguments in payload.get("do", []):
            ACTS[name](ctx, *arguments)
    except Returned as returned:
        return returned.value
    finally:
        if ledger:
            note(ledger, f"end {ctx.attempt} {os.getpid()}")
    return None


def note(path: str, line: str) -> None:
    """Append a line that is on the disk when this returns, whatever happens next."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


# -- saying ---------------------------------------------------------------------------------


def _print(_: JobContext, text: str, stream: str = "stdout", end: str = "\n") -> None:
    print(text, end=end, file=getattr(sys, stream))


def _print_lines(_: JobContext, count: int, text: str = "line") -> None:
    for number in range(1, count + 1):
        print(f"{text} {number}")


def _say(ctx: JobContext, level: str, message: str, context: dict[str, Any] | None = None) -> None:
    getattr(ctx, level)(message, **(context or {}))


def _log(_: JobContext, level: str, message: str, logger: str = "host") -> None:
    log = logging.getLogger(logger)
    log.setLevel(logging.DEBUG)
    log.log(getattr(logging, level.upper()), message)


def _warn(_: JobContext, message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=1)


def _c_print(_: JobContext, text: str) -> None:
    library = ctypes.CDLL(None)
    library.printf(b"%s", text.encode())
    library.fflush(None)


def _c_write_holding_gil(_: JobContext, count: int) -> None:
    """One write of `count` bytes in C; no thread of Python runs until somebody has read them."""
    data = (b"x" * 99 + b"\n") * (count // 100)
    ctypes.PyDLL(None).write(1, data, len(data))


def _hold_gil_until_file(_: JobContext, path: str) -> None:
    """Wait for a file in C, in steps of 0.1 s, and let no thread of Python run meanwhile."""
    library, name = ctypes.PyDLL(None), path.encode()
    command = b'while [ ! -e "$0" ]; do sleep 0.1; done'
    argv = (ctypes.c_char_p * 5)(b"sh", b"-c", command, name, None)
    child = ctypes.c_int()
    library.posix_spawn(ctypes.byref(child), b"/bin/sh", None, None, argv, None)
    library.waitpid(child, None, 0)


def _program(_: JobContext, *argv: str) -> None:
    subprocess.run(argv, check=False)


def _orphan(_: JobContext, seconds: float) -> None:
    """A program that is not waited for and keeps the output pipe open."""
    subprocess.Popen(["sleep", str(seconds)])


# -- steps, time and cancel --------------------------------------------------------------------


def _step(ctx: JobContext, key: str, label: str, index: int, total: int) -> None:
    ctx.set_step(key, label, index, total)


def _progress(ctx: JobContext, done: int, total: int) -> None:
    ctx.progress(done, total)


def _steps(ctx: JobContext, count: int, seconds: float) -> None:
    """`count` steps of `seconds`; asked to stop, it returns how many are done."""
    for number in range(1, count + 1):
        if ctx.is_cancellation_requested():
            ctx.warning("asked to stop")
            raise Returned({"completed": number - 1})
        ctx.set_step(f"step-{number}", f"Step {number}", number, count)
        ctx.progress(number, count)
        print(f"step {number} of {count}")
        time.sleep(seconds)
    raise Returned({"completed": count})


def _track(ctx: JobContext, count: int, seconds: float) -> None:
    for _ in ctx.track(range(count), "Tracking", total=count):
        time.sleep(seconds)


def _pause(_: JobContext, seconds: float) -> None:
    time.sleep(seconds)


def _wait_for_file(_: JobContext, path: str) -> None:
    """Go on when the test makes this file; deaf to everything else."""
    while not Path(path).exists():
        time.sleep(POLL)


def _wait_for_cancel(ctx: JobContext) -> None:
    while not ctx.is_cancellation_requested():
        time.sleep(POLL)


def _raise_if_cancelled(ctx: JobContext) -> None:
    ctx.raise_if_cancelled()


def _heartbeat(ctx: JobContext) -> None:
    ctx.heartbeat()


def _check(ctx: JobContext) -> None:
    ctx.check()


# -- ending ---------------------------------------------------------------------------------


def _note_modules(_: JobContext, path: str) -> None:
    Path(path).write_text("\n".join(sorted(sys.modules)), encoding="utf-8")


def _return(_: JobContext, value: Any) -> NoReturn:
    raise Returned(value)


def _return_kind(_: JobContext, kind: str) -> NoReturn:
    raise Returned(VALUES[kind]())


def _raise(_: JobContext, kind: str, message: str = "") -> NoReturn:
    known: dict[str, type[BaseException]] = {
        "OwnBaseException": OwnBaseException,
        "JobCancelled": JobCancelled,
        "CancelledError": asyncio.CancelledError,
    }
    raise (known.get(kind) or getattr(builtins, kind))(message)


def _raise_unless_file(_: JobContext, path: str) -> None:
    if not Path(path).exists():
        raise ValueError(f"{path} is missing")


def _exit(_: JobContext, code: Any = None) -> NoReturn:
    sys.exit(code)


def _os_exit(_: JobContext, code: int) -> NoReturn:
    os._exit(code)


def _kill(_: JobContext, number: int = signal.SIGKILL) -> None:
    os.kill(os.getpid(), number)


def _segfault(_: JobContext) -> None:
    ctypes.string_at(0)


def _ignore_signals(_: JobContext) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _close_descriptors(_: JobContext) -> None:
    os.closerange(3, 4096)


def _thread(_: JobContext, seconds: float) -> None:
    """A thread that outlives the handler."""
    threading.Thread(target=time.sleep, args=(seconds,)).start()


# -- the host's database -----------------------------------------------------------------------


def _add_entry(_: JobContext, name: str) -> None:
    from tests.host_app import Entry, db

    db.session.add(Entry(name=name))
    db.session.commit()


def _leave_uncommitted(_: JobContext, name: str) -> None:
    from tests.host_app import Entry, db

    db.session.add(Entry(name=name))
    db.session.flush()


def _hold_write(ctx: JobContext, seconds: float, lines: int) -> None:
    """Hold a write transaction of the host's for `seconds`, printing `lines` lines meanwhile."""
    from tests.host_app import Entry, db

    db.session.add(Entry(name="held"))
    db.session.flush()
    for number in range(1, lines + 1):
        print(f"holding {number}")
        ctx.progress(number, lines)
        time.sleep(seconds / lines)
    db.session.commit()


def _print_file(ctx: JobContext, name: str) -> None:
    print(ctx.file(name).read_text(encoding="utf-8"))


def _publish(ctx: JobContext, name: str, text: str, *then: Any) -> None:
    """Publish an artifact; an act that follows its arguments happens while it is written."""
    with ctx.artifact(name, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if then:
            ACTS[then[0]](ctx, *then[1:])


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


VALUES: dict[str, Callable[[], Any]] = {
    "object": object,
    "bytes": lambda: b"\xff\x00",
    "set": lambda: {1, 2},
    "nan": lambda: float("nan"),
    "date": lambda: dt.date(2026, 2, 3),
    "uuid": lambda: uuid.UUID(int=7),
    "decimal": lambda: decimal.Decimal("1.10"),
    "large": lambda: "x" * (2 << 20),
    "deep": lambda: json.loads("[" * 100 + "]" * 100),
    "circle": _circle,
    "coroutine": lambda: asyncio.sleep(0),
    "generator": lambda: (number for number in range(3)),
    "surrogate": lambda: "\ud800",
}

ACTS: dict[str, Callable[..., None]] = {
    "print file": _print_file,
    "publish": _publish,
    "print": _print,
    "print_lines": _print_lines,
    "say": _say,
    "log": _log,
    "warn": _warn,
    "c_print": _c_print,
    "c_write_holding_gil": _c_write_holding_gil,
    "hold_gil_until_file": _hold_gil_until_file,
    "program": _program,
    "orphan": _orphan,
    "step": _step,
    "progress": _progress,
    "steps": _steps,
    "track": _track,
    "pause": _pause,
    "wait_for_file": _wait_for_file,
    "wait_for_cancel": _wait_for_cancel,
    "raise_if_cancelled": _raise_if_cancelled,
    "heartbeat": _heartbeat,
    "check": _check,
    "note_modules": _note_modules,
    "return": _return,
    "return_kind": _return_kind,
    "raise": _raise,
    "raise_unless_file": _raise_unless_file,
    "exit": _exit,
    "os_exit": _os_exit,
    "kill": _kill,
    "segfault": _segfault,
    "ignore_signals": _ignore_signals,
    "close_descriptors": _close_descriptors,
    "thread": _thread,
    "add_entry": _add_entry,
    "leave_uncommitted": _leave_uncommitted,
    "hold_write": _hold_write,
}
