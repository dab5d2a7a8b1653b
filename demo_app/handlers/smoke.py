"""`demo.smoke`: sleeps in small steps and says each one. The shortest look at a whole job."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demo_app.extensions import jobs
from flask_jobrunner import JobContext


@dataclass(frozen=True, slots=True)
class SmokeRequest:
    """How long to sleep, and how often to say so. Junk means the default, too much the limit."""

    seconds: int
    interval_ms: int

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any] | None) -> SmokeRequest:
        """What the payload asks for; it is never refused."""
        values = payload or {}
        return cls(
            seconds=_whole(values.get("seconds"), default=10, least=1, most=3600),
            interval_ms=_whole(values.get("interval_ms"), default=500, least=100, most=5000),
        )

    @property
    def steps(self) -> int:
        """8 s at 500 ms are 16 steps; a last short one counts."""
        return math.ceil(self.seconds * 1000 / self.interval_ms)


@jobs.handler("demo.smoke", title="Smoke job", payload=SmokeRequest.from_payload, manual=True)
def smoke(ctx: JobContext) -> dict[str, Any]:
    """Sleep; stop at the next step when asked to, and return what was done until then."""
    request: SmokeRequest = ctx.payload
    steps = request.steps
    ctx.info(f"Sleeping {request.seconds} s in {steps} steps")
    end = time.monotonic() + request.seconds
    for step in range(1, steps + 1):
        if ctx.is_cancellation_requested():
            ctx.warning(f"Asked to stop; {step - 1} of {steps} steps are done")
            return _result(request, completed=step - 1)
        ctx.set_step(f"step-{step}", f"Step {step}", step, steps)
        ctx.progress(step - 1, steps)
        ctx.stdout(f"Step {step} of {steps}")
        time.sleep(max(0.0, min(request.interval_ms / 1000, end - time.monotonic())))
    ctx.set_step("done", "Done", steps, steps)
    ctx.progress(steps, steps)
    ctx.info(f"Slept {request.seconds} s")
    return _result(request, completed=steps)


def _result(request: SmokeRequest, *, completed: int) -> dict[str, Any]:
    return {
        "seconds": request.seconds,
        "interval_ms": request.interval_ms,
        "steps": request.steps,
        "completed_steps": completed,
    }


def _whole(value: object, *, default: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return default
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return default
    return min(max(number, least), most)
