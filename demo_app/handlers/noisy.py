"""`demo.noisy`: writes in every way a program can."""

from __future__ import annotations

import ctypes
import logging
import subprocess
import sys
import time
import warnings
from typing import Any

from demo_app.extensions import jobs
from flask_jobrunner import JobContext

logger = logging.getLogger("demo.noisy")


@jobs.handler("demo.noisy", title="Noisy job", manual=True)
def noisy(ctx: JobContext) -> dict[str, Any]:
    """Write in every way a program can; each line is found in the log of this job."""
    ways = (_python, _logging, _warnings, _c_library, _child_program, _bars, _awkward)
    for number, way in enumerate(ways, start=1):
        ctx.set_step(way.__name__.strip("_"), way.__doc__ or "", number, len(ways))
        way(ctx)
        ctx.progress(number, len(ways))
        time.sleep(0.5)
    return {"ways": len(ways)}


def _python(ctx: JobContext) -> None:
    """print and the context"""
    print("print to the output")
    print("print to the error output", file=sys.stderr)
    ctx.info("ctx.info with a context", colour="green", number=3)
    ctx.debug("ctx.debug")


def _logging(_: JobContext) -> None:
    """logging"""
    logger.setLevel(logging.DEBUG)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        logger.log(level, "a record of level %s", logging.getLevelName(level))
    try:
        int("forty-two")
    except ValueError:
        logger.exception("an exception that was caught, with its traceback")


def _warnings(_: JobContext) -> None:
    """warnings"""
    warnings.warn("a warning of Python", UserWarning, stacklevel=1)


def _c_library(_: JobContext) -> None:
    """a C library"""
    library = ctypes.CDLL(None)
    library.printf(b"printf of the C library, %d of %d\n", 1, 1)
    library.fflush(None)


def _child_program(ctx: JobContext) -> None:
    """other programs"""
    script = "echo a line of another program; echo and one of its error output >&2"
    subprocess.run(["sh", "-c", script], check=True)
    ctx.run(["sh", "-c", "echo a line of a program that ctx.run has started"])


def _bars(_: JobContext) -> None:
    """progress bars"""
    for done in range(0, 101, 4):
        full = done // 4
        bar = "\u2588" * full + "\u2591" * (25 - full)
        print(f"\r\033[32m{bar}\033[0m {done:3} %", end="", flush=True)
        time.sleep(0.08)
    print()


def _awkward(_: JobContext) -> None:
    """awkward text"""
    print("\033[1;32mgreen and bold\033[0m, plain again, \033[31mred\033[0m")
    print("<script>alert('this is text')</script> & <b>so is this</b>")
    print("connecting to postgresql://app:hunter2@db.example/shop")
    print("grüße, 你好, \N{SNOWMAN}, a NUL: [\0]")
    print("a long line: " + "0123456789 " * 2000)
