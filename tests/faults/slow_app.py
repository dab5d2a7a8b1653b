"""The host application, which is not built before a file is gone: `SLOW_APP` names a folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flask import Flask

from tests import host_app

FOLDER = "SLOW_APP"


def create_app() -> Flask:
    """Say that it began, wait, and build."""
    folder = Path(os.environ[FOLDER])
    (folder / "building").touch()
    while (folder / "wait").exists():
        time.sleep(0.02)
    return host_app.create_app()
