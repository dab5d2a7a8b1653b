"""A TCP proxy before a database server, which loses a COMMIT or the answer to one."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import sqlalchemy as sa

Loss = Literal["answer", "question"]


@dataclass(eq=False)
class Pair:
    """One connection, both of its sides."""

    client: socket.socket
    upstream: socket.socket
    wrote: bool = False
    muted: bool = False

    def cut(self) -> None:
        """End both sides."""
        for one in (self.client, self.upstream):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@dataclass
class LossyProxy:
    """Forwards bytes, but for what a test arms it to lose."""

    server: tuple[str, int]
    listener: socket.socket
    losses: int = 0
    """How often something was lost."""
    silent: bool = False
    """Take new connections and say nothing: a server behind a network that drops everything."""
    _armed: Loss | None = None
    _pairs: set[Pair] = field(default_factory=set)
    _held: list[socket.socket] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, url: str) -> str:
        """The URL of a database, by way of this proxy."""
        port = self.listener.getsockname()[1]
        through = sa.make_url(url).set(host="127.0.0.1", port=port)
        return through.render_as_string(hide_password=False)

    def lose(self, what: Loss) -> None:
        """Arm: of the next COMMIT that follows a write, lose the answer or the COMMIT itself.

        `answer`: the server has committed, and the client never hears of it.
        `question`: the connection is cut before the server hears of it.
        """
        with self._lock:
            self._armed = what

    def cut_all(self) -> None:
        """Cut every connection that is open now."""
        with self._lock:
            for pair in self._pairs:
                pair.cut()
            for one in self._held:
                one.close()

    def refuse(self) -> None:
        """From now on refuse connections, as where no server runs."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.silent:
                self._held.append(client)
            else:
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            upstream = socket.create_connection(self.server, timeout=10)
        except OSError:
            client.close()
            return
        upstream.settimeout(None)
        pair = Pair(client, upstream)
        with self._lock:
            self._pairs.add(pair)
        answers = threading.Thread(target=self._answers, args=(pair,), daemon=True)
        answers.start()
        self._questions(pair)
        pair.cut()
        answers.join()
        with self._lock:
            self._pairs.discard(pair)
        client.close()
        upstream.close()

    def _questions(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.client.recv(1 << 16):
                loss = self._take(pair, data)
                if loss == "question":
                    return
                pair.muted = loss == "answer"
                pair.upstream.sendall(data)

    def _answers(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.upstream.recv(1 << 16):
                if pair.muted:
                    break
                pair.client.sendall(data)
        pair.cut()

    def _take(self, pair: Pair, data: bytes) -> Loss | None:
        pair.wrote = pair.wrote or b"UPDATE " in data or b"INSERT " in data
        # Its end: PostgreSQL's BEGIN names the level READ COMMITTED.
        if not pair.wrote or not data.rstrip(b"\0").endswith(b"COMMIT"):
            return None
        pair.wrote = False
        with self._lock:
            what, self._armed = self._armed, None
            self.losses += what is not None
            return what


@contextlib.contextmanager
def proxy_before(url: str) -> Iterator[LossyProxy]:
    """A proxy before the server of `url`, on a loopback port of its own."""
    with proxy_at(socket.create_server(("127.0.0.1", 0)), url) as proxy:
        yield proxy


@contextlib.contextmanager
def proxy_at(listener: socket.socket, url: str) -> Iterator[LossyProxy]:
    """A proxy before the server of `url`, for whoever connects to the listener."""
    server = sa.make_url(url)
    assert server.host is not None
    assert server.port is not None
    proxy = LossyProxy((server.host, server.port), listener)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.refuse()
        proxy.cut_all()
