"""Applications that answer on a port, and pages that look at them."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from benchmarks import databases
from tests.dashboard.hosts import Host, host_factory, make_empty_database
from tests.helpers.browser import Pages, WatchedPage, running_browser


class Silent(WSGIRequestHandler):
    """Prints no requests."""

    def log(self, type: str, message: str, *arguments: Any) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def host_on(name: str) -> Iterator[Host | None]:
    """An application without processes on a new database; None where there is no server."""
    with ExitStack() as stack:
        found = databases.urls(name, stack)
        if found is None:
            yield None
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        empty = make_empty_database(folder / "empty.sqlite")
        make = stack.enter_context(host_factory(folder, empty))
        host = make(SQLALCHEMY_DATABASE_URI=found[0])
        with host.app.app_context():
            host.db.create_all()
        yield host


@contextmanager
def serving(app: Flask) -> Iterator[str]:
    """The address at which it answers."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@contextmanager
def opened() -> Iterator[WatchedPage]:
    """A page of a browser of its own."""
    with running_browser() as browser, ExitStack() as stack:
        yield Pages(browser, stack).open()


def first_byte(url: str, rounds: int, **headers: str) -> list[float]:
    """Milliseconds from asking to the first byte of the answer, over one connection."""
    parts, taken = urlsplit(url), list[float]()
    assert parts.hostname is not None
    connection = HTTPConnection(parts.hostname, parts.port, timeout=60)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    for _ in range(rounds):
        started = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        taken.append((time.perf_counter() - started) * 1000)
        assert answer.status < 400, (answer.status, path)
        answer.read()
    connection.close()
    return taken[1:]  # the first one builds what later ones have


def environment(**values: str) -> dict[str, str]:
    """The environment of a process of ours."""
    root = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": root, **values}
