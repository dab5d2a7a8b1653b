"""A private MariaDB server, and one empty database for each test that asks."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pymysql

from tests.servers import binaries, process

INSTALL = "install MariaDB's server programs (Debian: apt-get install mariadb-server)"

# Nothing here has to survive a power cut.
SETTINGS = (
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--skip-log-bin",
    "--sync-binlog=0",
    "--performance-schema=OFF",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=OFF",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=32M",
    "--innodb-fast-shutdown=2",
    "--character-set-server=utf8mb4",
    "--max-connections=300",
)


@dataclass
class MariaDB:
    """The running server; its root needs no password on loopback."""

    port: int
    server: process.ServerProcess
    _again: Callable[[], process.ServerProcess]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def crash(self) -> None:
        """End it at once: the next start has to recover."""
        self.server.process.kill()
        self.server.process.wait(process.STOP_TIMEOUT)

    def start_again(self) -> None:
        """Start it on the same data and port."""
        self.server = self._again()

    @contextmanager
    def fresh_database(self) -> Iterator[str]:
        """The URL of a new, empty database, which is dropped at the end with its sessions."""
        name = f"test_{next(self._numbers)}"
        _execute(self.port, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            # Otherwise the driver reads all certificate authorities for every connection.
            options = "charset=utf8mb4&ssl_disabled=true"
            yield f"mysql+pymysql://root@127.0.0.1:{self.port}/{name}?{options}"
        finally:
            self._drop(name)

    def _drop(self, name: str) -> None:
        # A session that still holds the tables would make the DROP wait for it.
        listed = "SELECT id FROM information_schema.processlist WHERE db = %s"
        for (session,) in _execute(self.port, listed, name):
            with contextlib.suppress(pymysql.err.OperationalError):
                _execute(self.port, f"KILL {int(session)}")
        _execute(self.port, f"DROP DATABASE IF EXISTS {name}")


def programs() -> tuple[Path, Path] | None:
    """`mariadb-install-db` and `mariadbd`, or None when they are not installed."""
    install, server = (binaries.find(name) for name in ("mariadb-install-db", "mariadbd"))
    return None if install is None or server is None else (install, server)


def start(
    environ: Mapping[str, str] = MappingProxyType({}), changes: Sequence[str] = ()
) -> MariaDB:
    """Make a data directory of its own and start a server on a free loopback port.

    `environ` is added to its environment, `changes` go before `SETTINGS`.
    """
    found = programs()
    if found is None:
        raise process.ServerFailed(INSTALL)
    install, mariadbd = found
    directory = process.private_directory("my")
    data, log = directory / "data", directory / "log"
    # In a shared folder the temporary tables of two servers that start at once have one name.
    places = (f"--datadir={data}", f"--tmpdir={directory}")
    prepare: list[str | Path] = [install, "--no-defaults", *places, "--skip-test-db"]
    process.run([*prepare, "--auth-root-authentication-method=normal"], log=log)
    # Of now: a test that starts it again may end all processes with its own environment.
    env = {**os.environ, **environ}

    def launch(port: int) -> process.ServerProcess:
        return process.start(
            [
                *(mariadbd, "--no-defaults", *places, f"--port={port}"),
                *(f"--socket={directory / 's'}", f"--pid-file={directory / 'pid'}"),
                *(*SETTINGS, *changes),
            ],
            log=log,
            answers=lambda: _answers(port),
            env=env,
            unprivileged=True,
        )

    port, server = process.on_free_port(launch)
    return MariaDB(port, server, lambda: launch(port))


def _answers(port: int) -> bool:
    try:
        _execute(port, "SELECT 1")
    except pymysql.err.OperationalError:
        return False
    return True


def _execute(port: int, statement: str, *values: object) -> list[tuple[Any, ...]]:
    connection = pymysql.connect(
        host="127.0.0.1",
        port=port,
        user="root",
        autocommit=True,
        connect_timeout=5,
        ssl_disabled=True,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())
