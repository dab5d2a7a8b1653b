"""What faulthandler writes, as lines of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .encoding import clean_text
from .redact import mask_text

LINES_MAX = 200
CHARACTERS_MAX = 500
CURRENT = "Current thread"
OURS = "/flask_jobrunner/child/"
WATCHDOG = "flask_jobrunner/child/watchdog.py"
CALLER = re.compile(r"/flask_jobrunner/handlers\.py\", line \d+ in call$")
"""The frame that calls the handler: what is above it is the application's."""


def stack_lines(text: str, keys: Sequence[str]) -> list[str]:
    """The lines, masked and bounded, the thread that matters first."""
    lines = [line for block in _current_first(text) for line in _without_ours(block)]
    left_out = len(lines) - LINES_MAX
    if left_out > 0:
        lines = [*lines[:LINES_MAX], f"[… {left_out:,} lines of other threads left out]"]
    return [mask_text(clean_text(line[:CHARACTERS_MAX]), keys) for line in lines]


def _without_ours(block: list[str]) -> list[str]:
    """A thread without the frames that lie below the handler; none at all of one that is ours.

    Who asks where his handler is should not have to search for it.
    """
    block = [line for line in block if line.strip()]
    frames = [line for line in block if line.lstrip().startswith("File ")]
    if frames and all(OURS in line for line in frames):
        return []
    below = next((n for n, line in enumerate(block) if CALLER.search(line)), len(block))
    return block[: max(below, 2)]


def _current_first(text: str) -> list[list[str]]:
    """faulthandler lists the newest thread first; the one that was asked, or that crashed, is
    the handler's most of the time, and the oldest. Where the watchdog wrote it is the oldest."""
    ahead, blocks = list[str](), list[list[str]]()
    for line in text.splitlines():
        if line.startswith((CURRENT, "Thread 0x")):
            blocks.append([])
        elif line.startswith("Extension modules:"):
            continue
        (blocks[-1] if blocks else ahead).append(line)
    watched = [block for block in blocks if _is_current(block) and WATCHDOG in "".join(block)]
    first = blocks[-1:] if watched else [block for block in blocks if _is_current(block)]
    others = [block for block in blocks if block not in first]
    return [ahead, *first, *others]


def _is_current(block: list[str]) -> bool:
    return block[0].startswith(CURRENT)
