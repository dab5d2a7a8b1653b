"""Handlers that misbehave; imported only by the processes of their jobs."""

from __future__ import annotations

import atexit
import ctypes
import json
import locale
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flask_jobrunner import JobContext

Handler = Callable[[JobContext], Any]


def two_arguments(_ctx: JobContext, _more: object) -> None:
    """No handler: it wants too much."""


class WithoutRun:
    """No handler: it has no `run`."""


class WithArguments:
    """No handler: nobody knows what to make it with."""

    def __init__(self, needed: object) -> None:
        self.needed = needed

    def run(self, _ctx: JobContext) -> None:
        """Never called."""


def fork(ctx: JobContext) -> str:
    """Both sides return from here."""
    pid = os.fork()
    ctx.info("parent" if pid else "child")
    ctx.progress(1 if pid else 99, 100)
    if not pid:
        return "the fork's"
    os.waitpid(pid, 0)
    return "the owner's"


def fork_that_raises(_ctx: JobContext) -> str:
    """The fork leaves with an exception."""
    pid = os.fork()
    if not pid:
        raise RuntimeError("in the fork")
    return f"waited {os.waitpid(pid, 0)[1] != 0}"


def daemonise(ctx: JobContext) -> None:
    """The double fork of a daemon; the parent leaves at once."""
    if os.fork():
        os._exit(0)
    os.setsid()
    for number in range(3):
        ctx.progress(number, 3)
        ctx.info("from the daemon")
    os._exit(0)


def _say(number: int) -> int:
    logging.getLogger("pool").warning("from a pool worker")
    return number * 2


def pool(_ctx: JobContext) -> list[int]:
    """A multiprocessing pool that is left open."""
    left_open = multiprocessing.get_context("fork").Pool(2)
    return left_open.map(_say, [1, 2])


def executor(_ctx: JobContext) -> int:
    """An executor that is left open, its threads idle."""
    left_open = ThreadPoolExecutor(2)
    return left_open.submit(lambda: 3).result()


def endless_thread(_ctx: JobContext) -> int:
    """A thread that never ends and is no daemon."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    return 1


def late_thread(ctx: JobContext) -> int:
    """A thread that goes on talking after the end."""

    def talk() -> None:
        for _ in range(100):
            ctx.info("late")
            ctx.progress(7, 7)
            time.sleep(0.02)

    threading.Thread(target=talk).start()
    return 1


def hanging_hook(_ctx: JobContext) -> int:
    """An exit hook that hangs, and one that raises."""
    atexit.register(time.sleep, 600)
    atexit.register(lambda: 1 / 0)
    return 1


def exit_hook(ctx: JobContext) -> int:
    """An exit hook that has something to do."""
    path = ctx.payload["path"]
    atexit.register(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)))
    return 1


def memory(ctx: JobContext) -> None:
    """More than may be had."""
    limit = 600 << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    ctx.info("before")
    hoard = [bytearray(1 << 30)]
    del hoard


def streams(_ctx: JobContext) -> int:
    """Replaces and closes what it prints to."""
    print("before")
    print("half \ud800 a character")
    sys.stdout.close()
    sys.stdout = None
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    os.close(0)
    return 1


def surroundings(_ctx: JobContext) -> int:
    """Changes everything that a process has one of."""
    os.chdir("/")
    os.umask(0o777)
    os.environ.clear()
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    locale.setlocale(locale.LC_ALL, "C")
    sys.setswitchinterval(60)
    sys.settrace(lambda *_: None)
    threading.settrace(lambda *_: None)
    warnings.simplefilter("error")
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(120)
    return 1


def patches(ctx: JobContext) -> int:
    """Replaces what every module uses, longer than a lease lasts."""
    real_sleep = time.sleep
    broken: Any = _broken
    for module, names in (
        (time, ("time", "monotonic", "sleep", "time_ns", "perf_counter")),
        (json, ("dumps", "loads")),
        (socket, ("socket", "create_connection")),
        (threading, ("Thread", "Event", "Condition", "Timer")),
    ):
        for name in names:
            setattr(module, name, broken)
    for number in range(12):
        ctx.info("still here", number=number)
        print(f"print {number}")
        real_sleep(0.25)
    return 1


def _broken(*_: object, **__: object) -> object:
    raise RuntimeError("patched")


def hold_gil(ctx: JobContext) -> int:
    """No thread of this process runs for longer than a lease lasts."""
    ctx.info("holding")
    ctypes.PyDLL(None).usleep(int(ctx.payload["seconds"] * 1_000_000))
    ctx.info("released")
    return 1


def logs_early(ctx: JobContext) -> int:
    """Tells what a fresh process of ours looks like."""
    ctx.info(
        "seen",
        term=str(signal.getsignal(signal.SIGTERM)),
        interrupt=str(signal.getsignal(signal.SIGINT)),
        child=str(signal.getsignal(signal.SIGCHLD)),
        mask=sorted(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        umask=_umask(),
        encoding=sys.stdout.encoding,
        stdin=os.read(0, 10).decode(),
        pipes=os.environ.get("JOBRUNNER_PIPES"),
        cwd=os.getcwd(),  # noqa: PTH109
        inheritable=[fd for fd in map(int, os.listdir("/proc/self/fd")) if _passed_on(fd)],  # noqa: PTH208
        argv=sys.argv,
    )
    print("ünïcode")
    return 1


def _passed_on(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:
        return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def invalid(_ctx: JobContext) -> None:
    """Registered with a validator below."""


def flood(ctx: JobContext) -> int:
    """Much of everything: a long line, binary, colours, markup, and many lines."""
    print("x" * 3_000_000)
    sys.stdout.buffer.write(bytes(range(256)) * 4 + b"\n")
    print("\x1b[31mred\x1b[0m \u2028 </script>")
    for number in range(ctx.payload["lines"]):
        print(number)
        ctx.progress(number, ctx.payload["lines"])
    return 1


def program(_ctx: JobContext) -> int:
    """A program that outlives the handler and holds the pipe."""
    if not os.fork():
        os.setsid()
        os.execvp("sleep", ["sleep", "30"])
    os.system("echo from a program; echo and its errors >&2")
    return 1
