"""A handler whose module takes as long to import as the file in `HOST_LATE` is there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from flask_jobrunner import JobContext
from tests.host_acts import POLL, perform

while Path(os.environ.get("HOST_LATE", "no such file")).exists():
    time.sleep(POLL)


def handle(ctx: JobContext) -> Any:
    """Do what the payload says."""
    return perform(ctx)
