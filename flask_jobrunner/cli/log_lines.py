"""How one log line is printed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import click

from flask_jobrunner.model.records import LogLine
from flask_jobrunner.runtime import Runtime

from .common import masked
from .output import echo, echo_json_line, on_terminal, safe

_LEVEL_COLOURS = {"debug": "bright_black", "warning": "yellow", "error": "red", "critical": "red"}

Show = Callable[[LogLine], None]


def json_printer(runtime: Runtime) -> Show:
    """Prints lines as NDJSON."""
    return lambda line: echo_json_line(masked(runtime, line.to_dict()))


def text_printer(
    runtime: Runtime, *, timestamps: bool = False, attempt: int = 1, indent: str = ""
) -> Show:
    """Prints lines as text, with a level that is not `info` in front.

    A heading says where an attempt other than `attempt` begins.
    """
    zone = runtime.config.timezone
    colours = on_terminal() and not os.environ.get("NO_COLOR")
    current = attempt

    def show(line: LogLine) -> None:
        nonlocal current
        if line.attempt != current:
            current = line.attempt
            echo(click.style(f"--- attempt {current} ---", fg="bright_black"))
        at = line.created_at.astimezone(zone)
        stamp = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} " if timestamps else ""
        text = stamp + _level(line) + safe(line.message, colours=colours)
        text += _context(runtime, line)
        echo(indent + text.replace("\n", f"\n{indent}"))

    return show


def _level(line: LogLine) -> str:
    # What was printed has no level that anybody chose.
    if line.level == "info" or line.stream in ("stdout", "stderr"):
        return ""
    return click.style(line.level.upper(), fg=_LEVEL_COLOURS.get(line.level)) + " "


def _context(runtime: Runtime, line: LogLine) -> str:
    if not line.context:
        return ""
    pairs = masked(runtime, line.context).items()
    text = " ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pairs)
    return "  " + click.style(safe(text), fg="bright_black")
