"""A private PostgreSQL server, and one empty database for each test that asks."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import psycopg

from tests.servers import binaries, process

INSTALL = "install PostgreSQL's server programs (Debian: apt-get install postgresql)"

# Nothing here has to survive a power cut.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "300",
    "max_prepared_transactions": "20",
    "shared_buffers": "64MB",
    "listen_addresses": "127.0.0.1",
}


@dataclass
class PostgreSQL:
    """The running server; its superuser needs no password on loopback."""

    port: int
    server: process.ServerProcess
    _again: Callable[[], process.ServerProcess]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def crash(self) -> None:
        """End it at once, as a crash would: the next start has to recover."""
        self.server.process.send_signal(signal.SIGQUIT)
        self.server.process.wait(process.STOP_TIMEOUT)

    def start_again(self) -> None:
        """Start it on the same data and port."""
        self.server = self._again()

    @contextmanager
    def fresh_database(self) -> Iterator[str]:
        """The URL of a new, empty database, which is dropped at the end with its sessions."""
        name = f"test_{next(self._numbers)}"
        _execute(self.port, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        try:
            yield f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{name}"
        finally:
            _execute(self.port, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def programs() -> tuple[Path, Path] | None:
    """`initdb` and `postgres`, or None when they are not installed."""
    initdb, postgres = (binaries.find_postgresql(name) for name in ("initdb", "postgres"))
    return None if initdb is None or postgres is None else (initdb, postgres)


def start(
    environ: Mapping[str, str] = MappingProxyType({}),
    changes: Mapping[str, str] = MappingProxyType({}),
) -> PostgreSQL:
    """Make a cluster in a directory of its own and start it on a free loopback port.

    `environ` is added to its environment, `changes` go before `SETTINGS`.
    """
    found = programs()
    if found is None:
        raise process.ServerFailed(INSTALL)
    initdb, postgres = found
    directory = process.private_directory("pg")
    data, log = directory / "data", directory / "log"
    prepare: list[str | Path] = [
        initdb,
        "-D",
        data,
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    process.run([*prepare, "--locale=C.UTF-8"], log=log)
    settings = [
        word
        for key, value in (SETTINGS | dict(changes)).items()
        for word in ("-c", f"{key}={value}")
    ]
    # Of now: a test that starts it again may end all processes with its own environment.
    env = {**os.environ, "LC_ALL": "C.UTF-8", **environ}

    def launch(port: int) -> process.ServerProcess:
        return process.start(
            [postgres, "-D", data, "-p", str(port), "-k", directory, *settings],
            log=log,
            answers=lambda: _answers(port),
            stop_signal=signal.SIGINT,  # its fast shutdown: sessions are not waited for
            env=env,
            unprivileged=True,
        )

    port, server = process.on_free_port(launch)
    return PostgreSQL(port, server, lambda: launch(port))


def _answers(port: int) -> bool:
    try:
        _execute(port, "SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def _execute(port: int, statement: str) -> None:
    with psycopg.connect(
        host="127.0.0.1",
        port=port,
        user="postgres",
        dbname="postgres",
        autocommit=True,
        connect_timeout=5,
    ) as connection:
        connection.execute(statement.encode())
