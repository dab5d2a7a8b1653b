"""Jobs that go wrong on purpose: their pages show what is left."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from demo_app.extensions import jobs
from flask_jobrunner import JobContext


@dataclass(frozen=True, slots=True)
class CrashRequest:
    """How to crash: `kill` is signal 9, `segfault` a read of address 0 in C."""

    how: str

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any] | None) -> CrashRequest:
        """Raises `ValueError` for a way that the job does not know."""
        how = (payload or {}).get("how", "kill")
        if how not in ("kill", "segfault"):
            raise ValueError(f"how is 'kill' or 'segfault', not {how!r}")
        return cls(how)


@jobs.handler("demo.crash", title="Crash", payload=CrashRequest.from_payload, manual=True)
def crash(ctx: JobContext) -> NoReturn:
    """Say some last words and die; no line of Python runs after that, and no cleanup."""
    for second in (3, 2, 1):
        ctx.set_step("countdown", f"{second} s left", 4 - second, 3)
        print(f"{second} ...")
        time.sleep(1)
    print("These are my last words: the next thing is", ctx.payload.how)
    if ctx.payload.how == "segfault":
        ctypes.string_at(0)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("signal 9 cannot be survived")


@jobs.handler("demo.stubborn", title="Stubborn job", cancel_grace=10, run_budget=300)
def stubborn(ctx: JobContext) -> str:
    """Run for a minute whatever is asked; ten seconds after a cancel its time is up."""
    for second in range(60):
        asked = ctx.is_cancellation_requested()
        print("I was asked to stop, and go on." if asked else "Nothing can stop me.", second)
        ctx.progress(second + 1, 60, "seconds")
        time.sleep(1)
    return "I did all I wanted to do."


@jobs.handler("demo.fail", title="Failing job", manual=True)
def fail(ctx: JobContext) -> NoReturn:
    """Go well for two steps and meet something unexpected in the third."""
    prices = {"apples": "1.20", "pears": "2.40", "plums": "to be announced"}
    total = 0.0
    for number, (fruit, price) in enumerate(prices.items(), start=1):
        ctx.set_step(fruit, f"Price of {fruit}", number, len(prices))
        total += _price(fruit, price)
        ctx.info(f"With {fruit} it is {total:.2f}", fruit=fruit)
        time.sleep(1)
    raise AssertionError("plums have a price after all")


def _price(fruit: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise LookupError(f"{fruit} have no price yet") from error
