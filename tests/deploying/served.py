"""The tests' host application as a web server serves it, with views that start and hang.

`gunicorn tests.deploying.served:create_app()`. While the file that `HOST_GATE` names is missing,
the factory waits in a job's process (then a start waits, too) and in a supervisor; it makes the
file `….waits` to say so.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any

from flask import Flask, request

from flask_jobrunner import process_role
from tests import host_app

APP = "tests.deploying.served:create_app"
GATE = "HOST_GATE"
_POLL = 0.02


def create_app() -> Flask:
    """The host application and these views."""
    gate = os.environ.get(GATE)
    while gate and process_role() != "web" and not Path(gate).exists():
        Path(f"{gate}.waits").touch()
        time.sleep(_POLL)
    app = host_app.create_app()
    app.add_url_rule("/start", "start", start, methods=["POST"])
    app.add_url_rule("/pid", "pid", pid)
    app.add_url_rule("/hang", "hang", hang)
    return app


def start() -> dict[str, Any]:
    """Start a job with the payload that was sent."""
    return {**host_app.jobs.start("host.script", request.get_json()).to_dict(), "pid": os.getpid()}


def pid() -> str:
    """The process that answers."""
    return str(os.getpid())


def hang() -> str:
    """A call into C that keeps the interpreter's lock: no thread and no hub goes on."""
    ctypes.PyDLL(None).sleep(600)
    return "it was woken"
