"""A served host, and pages that look at it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from tests.dashboard.hosts import Host, MakeHost, host_factory, make_empty_database


class Silent(WSGIRequestHandler):
    """Requests are counted by the test, not printed."""

    def log(self, type: str, message: str, *arguments: Any) -> None:  # noqa: A002
        """Say nothing."""


@dataclass
class Served:
    """An application that answers on a port of this machine, and what it was asked for."""

    app: Flask
    url: str
    requests: list[str] = field(default_factory=list)

    def polls(self) -> list[str]:
        """The fragments that were asked for."""
        return [path for path in self.requests if "/_" in path]


Serve = Callable[[Flask], Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves applications until the test ends."""
    with serving() as start:
        yield start


@contextlib.contextmanager
def serving() -> Iterator[Serve]:
    """Serves applications until the block ends."""
    with contextlib.ExitStack() as stop_later:

        def start(app: Flask) -> Served:
            server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
            served = Served(app, f"http://localhost:{server.server_port}")
            app.wsgi_app = _counting(app.wsgi_app, served)  # type: ignore[method-assign]
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            stop_later.callback(_stop, server, thread)
            return served

        yield start


def _counting(inner: Any, served: Served) -> Any:
    def count(environ: dict[str, Any], start_response: Any) -> Any:
        query = environ.get("QUERY_STRING", "")
        served.requests.append(environ["PATH_INFO"] + (f"?{query}" if query else ""))
        return inner(environ, start_response)

    return count


def _stop(server: BaseWSGIServer, thread: threading.Thread) -> None:
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file to copy."""
    return make_empty_database(tmp_path_factory.mktemp("browser") / "empty.sqlite")


@pytest.fixture
def make_host(tmp_path: Path, empty_database: Path) -> Iterator[MakeHost]:
    """Builds hosts."""
    with host_factory(tmp_path, empty_database) as make:
        yield make


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host that lets everybody do everything."""
    return make_host()


@pytest.fixture
def served(host: Host, serve: Serve) -> Served:
    """The same, served."""
    return serve(host.app)
