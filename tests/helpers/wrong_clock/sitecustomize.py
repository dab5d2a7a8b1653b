"""Python's wall clock, wrong by as many seconds as a file says, in every process that has this
folder on its path: it is imported before anything that could keep the true one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_FILE = Path(os.environ["WRONG_CLOCK"])
_true_ns = time.time_ns


def _wrong_ns() -> int:
    return _true_ns() + int(_FILE.read_text(encoding="ascii")) * 1_000_000_000


def _wrong() -> float:
    return _wrong_ns() / 1_000_000_000


time.time_ns, time.time = _wrong_ns, _wrong
