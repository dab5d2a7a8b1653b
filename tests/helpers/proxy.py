"""A TCP proxy between a process and its database, which a test can cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class Proxy:
    """Forwards one loopback port to another, as long as it is told to."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._refusing = False
        self._cut_after: bytes | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, real: str) -> str:
        """The database's URL through this proxy."""
        parts = urlsplit(real)
        return real.replace(f":{parts.port}/", f":{self.port}/")

    @property
    def is_cut(self) -> bool:
        """Whether nothing comes through now."""
        return self._refusing

    def cut(self) -> None:
        """Break all connections and let no new one through."""
        self._refusing = True
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            _end(connection)

    def cut_at_the_commit_after(self, words: bytes) -> None:
        """Once a client has sent `words`, cut at its next COMMIT: it happens, and nobody hears."""
        self._cut_after = words

    def restore(self) -> None:
        """Let connections through again."""
        self._refusing = False

    def close(self) -> None:
        """Stop."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _end(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _end(client)
                continue
            with self._lock:
                self._open |= {client, server}
            for source, sink, reader in (
                (client, server, self._watch),
                (server, client, self._pass),
            ):
                threading.Thread(target=reader, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        _end(source)
        _end(sink)

    def _watch(self, source: socket.socket, sink: socket.socket) -> None:
        seen = False
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                wanted = self._cut_after
                seen = seen or (wanted is not None and wanted in data)
                if not (seen and b"COMMIT" in data):
                    sink.sendall(data)
                    continue
                self._cut_after, self._refusing = None, True
                _end(source)
                sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
                with self._lock:
                    self._open.discard(sink)
                self.cut()
                return
        _end(source)
        _end(sink)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def proxy_to(url: str) -> Iterator[Proxy]:
    """A proxy in front of the database of `url`."""
    port = urlsplit(url).port
    assert port is not None
    proxy = Proxy(port)
    yield proxy
    proxy.close()
