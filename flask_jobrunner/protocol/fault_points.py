"""Named places between the durable steps, where a test can end, stop or cut off a process.

There is nothing here that does so: only names, and one hook that is None. What it would do is in
the tests, and no environment alone can install it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

Hook = Callable[[str], None]
ASKS = ("JOBRUNNER_TESTING", "JOBRUNNER_FAULT_POINTS")
"""Both must be set before a hook is taken."""

_hook: Hook | None = None


def fault_point(name: str) -> None:
    """Say that this process has come here."""
    if _hook is not None:
        _hook(name)


def arm(hook: Hook) -> None:
    """Have `hook` called at every point. For the application of tests: nothing here calls it."""
    global _hook  # noqa: PLW0603 - one for the process, so that a point costs one look
    missing = [name for name in ASKS if not os.environ.get(name)]
    if missing:
        raise RuntimeError(f"Fault points are for tests: {' and '.join(missing)} must be set.")
    _hook = hook
