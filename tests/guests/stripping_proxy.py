"""A reverse proxy that shows an application below a prefix of which that knows nothing itself."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "date", "server"}


class StrippingProxy:
    """Takes `prefix` off each path and says so in a header; what lies outside is a 404."""

    def __init__(self, target: str, prefix: str) -> None:
        self.prefix = prefix
        self.answers: list[tuple[int, str]] = []
        self._target = urlsplit(target).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def outside(self) -> list[str]:
        """Paths that were asked for and are not below the prefix."""
        return [path for _, path in self.answers if not path.startswith(f"{self.prefix}/")]

    def refused(self) -> list[tuple[int, str]]:
        """Answers that are errors."""
        return [(status, path) for status, path in self.answers if status >= 400]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Pass it on."""
                proxy._pass(self)

            do_POST = do_HEAD = do_GET  # noqa: N815 - http.server calls them so

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                """Say nothing."""

        return Handler

    def _pass(self, asked: BaseHTTPRequestHandler) -> None:
        if not asked.path.startswith(f"{self.prefix}/"):
            self.answers.append((404, asked.path))
            asked.send_error(404)
            return
        length = int(asked.headers.get("Content-Length", 0))
        headers = dict(asked.headers.items())
        headers["X-Forwarded-Prefix"] = self.prefix
        headers["X-Forwarded-Host"] = headers["Host"]
        headers["X-Forwarded-Proto"] = "http"
        headers["X-Forwarded-For"] = "203.0.113.7"
        headers["Host"] = "inside.example.org"
        headers["Connection"] = "close"
        inside = http.client.HTTPConnection(self._target, timeout=60)
        try:
            path = asked.path.removeprefix(self.prefix)
            inside.request(asked.command, path, asked.rfile.read(length), headers)
            answer = inside.getresponse()
            body = answer.read()
        finally:
            inside.close()
        self.answers.append((answer.status, asked.path))
        asked.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP | {"content-length"}:
                asked.send_header(name, value)
        asked.send_header("Content-Length", str(len(body)))
        asked.end_headers()
        asked.wfile.write(body)


@contextmanager
def stripping_proxy(target: str, prefix: str) -> Iterator[StrippingProxy]:
    """A proxy before `target`, until the block ends."""
    proxy = StrippingProxy(target, prefix)
    try:
        yield proxy
    finally:
        proxy.close()
