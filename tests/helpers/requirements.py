"""What a test needs from the machine: there, or skipped with a sentence, or required."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def everything_is_required() -> bool:
    """Whether a missing server or browser fails a test instead of skipping it."""
    return os.environ.get("JOBRUNNER_REQUIRE_ALL") == "1"


def missing(what: str, install: str) -> NoReturn:
    """End the test because `what` is not on this machine; `install` says how to get it."""
    reason = f"{what} is not on this machine; {install}"
    if everything_is_required():
        pytest.fail(f"{reason} (JOBRUNNER_REQUIRE_ALL=1 makes this an error)", pytrace=False)
    pytest.skip(reason)
