"""A handler that nothing stops from inside: no signal, no request, no exception."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from flask_jobrunner import JobContext
from tests.host_acts import note


def handle(ctx: JobContext) -> None:
    """Go on for ever; `ledger` in the payload says that it began."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    note(ctx.payload["ledger"], f"start {ctx.attempt} {os.getpid()}")
    while True:
        with suppress(BaseException):
            ctx.raise_if_cancelled()
            ctx.check()
            time.sleep(0.05)
