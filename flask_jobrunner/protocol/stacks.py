"""What faulthandler writes, as lines of a log."""

from __future__ import annotations

from collections.abc import Sequence

from .encoding import clean_text
from .redact import mask_text

LINES_MAX = 200
CHARACTERS_MAX = 500
CURRENT = "Current thread"
WATCHDOG = "flask_jobrunner/child/watchdog.py"


def stack_lines(text: str, keys: Sequence[str]) -> list[str]:
    """The lines, masked and bounded, the thread that matters first."""
    lines = [line for line in _current_first(text) if line.strip()]
    left_out = len(lines) - LINES_MAX
    if left_out > 0:
        lines = [*lines[:LINES_MAX], f"[… {left_out:,} lines of other threads left out]"]
    return [mask_text(clean_text(line[:CHARACTERS_MAX]), keys) for line in lines]


def _current_first(text: str) -> list[str]:
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
    return [*ahead, *(line for block in first + others for line in block)]


def _is_current(block: list[str]) -> bool:
    return block[0].startswith(CURRENT)
