"""`demo.long_log`: as many lines as a busy day has, to search, filter and follow."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

from demo_app.extensions import jobs
from flask_jobrunner import JobContext

LINES = 20_000
MOST = 200_000
REST_EVERY, REST = 200, 0.1  # some 10 s in all
COLOURS = {200: "32", 304: "36", 404: "33", 500: "1;31"}
NEEDLE = "a needle in the haystack"


def line_count(payload: Mapping[str, Any] | None) -> int:
    """How many lines the payload asks for. Raises `ValueError` unless it is 1 to `MOST`."""
    lines = (payload or {}).get("lines", LINES)
    if not isinstance(lines, int) or not 1 <= lines <= MOST:
        raise ValueError(f"lines is 1 to {MOST:,}")
    return lines


@jobs.handler("demo.long_log", title="Long log", payload=line_count, manual=True)
def long_log(ctx: JobContext) -> dict[str, int]:
    """Print what a web server might, in colours, with a warning now and then and one needle."""
    lines: int = ctx.payload
    chance = random.Random(lines)  # the same lines each time
    for number in ctx.track(range(1, lines + 1), "lines"):
        status = chance.choices((200, 304, 404, 500), (90, 6, 3.9, 0.1))[0]
        path = f"/orders/{chance.randrange(10_000)}"
        print(
            f"\033[{COLOURS[status]}m{status}\033[0m GET {path} "
            f"\033[2min {chance.randrange(5, 90)} ms\033[0m"
        )
        if status == 500:
            ctx.error(f"{path} could not be shown", line=number)
        if number % 1000 == 0:
            ctx.warning(f"{number:,} requests without a rest")
        if number == lines * 3 // 4:
            ctx.info(f"Here is {NEEDLE}")
        if number % REST_EVERY == 0:
            time.sleep(REST)
    return {"lines": lines}
