"""A module that is never imported to its end in a process that stands by, if told so."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flask_jobrunner import JobContext, process_role

if process_role() == "standby" and "STUCK" in os.environ:
    Path(os.environ["STUCK"]).write_text(str(os.getpid()))
    time.sleep(600)


def handle(ctx: JobContext) -> None:
    """Nothing."""
