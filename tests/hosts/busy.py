"""A handler that prints and makes progress until a file is there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from flask_jobrunner import JobContext
from tests.host_acts import note

EVERY = 0.2


def payload(folder: Path, name: object) -> dict[str, Any]:
    """Keep a ledger called `name` in `folder`, until there is a file `go-on` in it."""
    return {"until": str(folder / "go-on"), "ledger": str(folder / f"{name}")}


def handle(ctx: JobContext) -> int:
    """How many lines were printed."""
    note(ctx.payload["ledger"], f"start {ctx.attempt} {os.getpid()}")
    lines = 0
    while not Path(ctx.payload["until"]).exists():
        lines += 1
        print(f"line {lines}")
        ctx.progress(lines, lines + 1)
        time.sleep(EVERY)
    return lines
