"""What a function costs for a text four times as long: no clock of any machine comes into it."""

from __future__ import annotations

import time
from collections.abc import Callable

_TIMES = 4
_NOISE = 0.05
"""Seconds of a processor below which nothing is measured."""


def is_about_linear(work: Callable[[str], object], text: str) -> bool:
    """Whether the whole text costs far less than 16 times its first or its last quarter.

    Linear work costs 4 times as much, quadratic work 16 times; the line is drawn at 10. Of the
    two the dearer counts: what makes a text dear may be a word at its end.
    """
    size = len(text) // _TIMES
    parts = text[:size], text[-size:]
    quarter = max(min(_cost(work, part) for _ in range(3)) for part in parts)
    whole = min(_cost(work, text) for _ in range(2))
    return whole < 10 * max(quarter, _NOISE)


def _cost(work: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    work(text)
    return time.process_time() - began
