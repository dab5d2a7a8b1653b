"""Queues for the contestants: new databases, and a Redis server of this run alone."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

from benchmarks import databases
from tests.servers import binaries, process

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"


class Services:
    """Servers are started when somebody needs them, and end with the stack."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._redis: str | None = None
        self._databases = 0

    def url(self, kind: str) -> str | None:
        """A queue that nobody has used, or None where its server is not installed."""
        if kind == "redis":
            return self._of_redis()
        if kind == "file":
            [url] = databases.urls("sqlite", self._stack) or [""]
            return url.removeprefix("sqlite:///")
        found = databases.urls(kind, self._stack)
        return found[0] if found else None

    def _of_redis(self) -> str | None:
        program = binaries.find("redis-server")
        if program is None:
            return None
        if self._redis is None:
            self._redis = _start(program, self._stack)
        # One of its numbered databases for each contestant.
        self._databases += 1
        return f"{self._redis}/{self._databases}"


def _start(program: Path, stack: ExitStack) -> str:
    """Start Redis on a free loopback port; it keeps nothing on disk. Its address."""
    directory = process.private_directory("redis")
    options = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(directory))

    def launch(port: int) -> process.ServerProcess:
        return process.start(
            [program, "--port", str(port), "--databases", "256", *options],
            log=directory / "log",
            answers=lambda: _answers(port),
            env=os.environ,
            unprivileged=True,
        )

    port, server = process.on_free_port(launch)
    stack.callback(server.stop)
    return f"redis://127.0.0.1:{port}"


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(5) == b"+PONG"
    except OSError:
        return False
