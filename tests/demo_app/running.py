"""The demo as a person has it: a process that prints its address."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def running_demo(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The demo and its address, started as `make demo` does; ended by whoever uses it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "demo_app", *arguments],
        cwd=ROOT,
        env=os.environ | {"DEMO_INSTANCE": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.terminate()  # so that it ends its supervisor
        try:
            process.wait(60)
        finally:
            process.kill()
        process.stdout.close()
