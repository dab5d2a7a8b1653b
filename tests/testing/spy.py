"""Whether anything starts a process or a thread."""

from __future__ import annotations

import _thread
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flask_jobrunner.child import steady


@contextmanager
def nothing_starts() -> Iterator[None]:
    """Fails for whoever starts a process or a thread, and again at the end."""
    begun: list[str] = []

    def refuse(name: str) -> Any:
        def instead(*args: Any, **kwargs: Any) -> Any:
            begun.append(name)
            raise AssertionError(f"{name} was called")

        return instead

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse("subprocess.Popen"))
        patch.setattr(os, "fork", refuse("os.fork"))
        patch.setattr(os, "posix_spawn", refuse("os.posix_spawn"))
        patch.setattr(threading.Thread, "start", refuse("Thread.start"))
        patch.setattr(_thread, "start_new_thread", refuse("start_new_thread"))
        patch.setattr(steady, "start_new_thread", refuse("start_new_thread"))
        yield
    assert begun == []
