"""A log of 100 MB as a file: how soon it begins, how fast it comes, what the server needs."""

from __future__ import annotations

import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import databases, host_app
from benchmarks.figures import Figure
from benchmarks.pages import environment
from tests.dashboard.seeding import add_job
from tests.deploying.servers import Web, free_port
from tests.deploying.test_downloads import peak
from tests.helpers.long_logs import fill_log

LONG_LINES = 6_600, "x" * 16_000
SHORT_LINES = 1_000_000, "x" * 90


class Server(Web):
    """The measured application; it says nothing of its process."""

    def worker(self) -> int:
        """The one process there is."""
        assert self.process is not None
        self.ask("/jobs/")
        return self.process.pid


def figures(names: Sequence[str]) -> Iterator[Figure]:
    """First byte, speed and memory, with few long and with many short lines."""
    for name in names:
        for what, (lines, padding) in (("long", LONG_LINES), ("short", SHORT_LINES)):
            yield from _one(name, what, lines, padding)


def _one(name: str, what: str, lines: int, padding: str) -> Iterator[Figure]:
    with ExitStack() as stack:
        found = databases.urls(name, stack)
        if found is None:
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        values = environment(**{host_app.DATABASE: found[0]})
        app = host_app.made(found[0])
        with app.app_context():
            host_app.db.create_all()
            stack.callback(host_app.db.engine.dispose)
            runtime = app.extensions["jobrunner"]
            uuid, few = add_job(runtime, "succeeded"), add_job(runtime, "succeeded")
            fill_log(runtime, uuid, lines, padding=padding)
            fill_log(runtime, few, 100)
        server = Server(folder, free_port())
        stack.callback(server.kill)
        command = ["-m", "flask", "--app", host_app.APP, "run", "--port", str(server.port)]
        server.run([sys.executable, *command], values)
        server.ask(f"/jobs/{few}/log.txt")
        before = peak(server.worker())
        started = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/jobs/{uuid}/log.txt") as file:
            size = len(file.read(1))
            first = time.perf_counter() - started
            while piece := file.read(1 << 16):
                size += len(piece)
        seconds = time.perf_counter() - started
        more = (peak(server.worker()) - before) / (1 << 20)
        measure = f"{size / 1e6:,.0f} MB of {what} lines"
        for label, value, unit, target, more_is_better in (
            ("first byte", first * 1000, "ms", 200, False),
            ("memory of the server", more, "MiB", 24, False),
            ("speed", size / 1e6 / seconds, "MB/s", 10, True),
        ):
            yield Figure(
                measure=f"{measure}: {label}",
                where=name,
                value=value,
                unit=unit,
                target=target,
                more_is_better=more_is_better,
            )
