"""Where a soak keeps its rows, a private server or a file, and how it is taken away."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pymysql

from tests.servers import mariadb, postgresql, process

# The tests' servers need not survive anything; these have to keep what they said they had kept.
DURABLE = {
    "postgresql": ("-c", "synchronous_commit=on"),
    "mariadb": ("--innodb-flush-log-at-trx-commit=2",),
}


@dataclass
class Place:
    """One database; `troubles` are what can happen to it, by name."""

    url: str
    troubles: dict[str, Callable[[random.Random], None]] = field(default_factory=dict)


@dataclass
class _Server:
    """A server that can be killed and started again on its data."""

    name: str
    process: process.ServerProcess
    answers: Callable[[], bool]
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    """That of before: what is started with a soak's mark is ended with it."""

    def restart(self, absent: float) -> None:
        """Kill it at once, stay away, start it again. From the thread that lives as long as it."""
        running = self.process.process
        if self.name == "postgresql":
            running.send_signal(signal.SIGQUIT)  # its immediate shutdown; its workers end with it
        else:
            running.kill()
        running.wait(60)
        time.sleep(absent)
        argv = [str(word) for word in running.args]  # type: ignore[union-attr]  # a list of ours
        argv = argv[argv.index("--") + 1 :] if "--" in argv else argv
        extra = [word for word in DURABLE[self.name] if word not in argv]
        self.process = process.start(
            [*argv, *(DURABLE[self.name] if extra else ())],
            log=self.process.log,
            answers=self.answers,
            stop_signal=self.process.stop_signal,
            env=self.environ | {"LC_ALL": "C.UTF-8"},
            unprivileged=True,
        )


@contextmanager
def place(name: str, folder: Path) -> Iterator[Place]:
    """A new database of this kind."""
    if name == "sqlite":
        path = folder / "app.sqlite"
        yield Place(f"sqlite:///{path}", {"lock": lambda chance: _hold(path, chance)})
        return
    module = postgresql if name == "postgresql" else mariadb
    running = module.start()
    with running.fresh_database() as url:
        cut = _cut_postgresql if name == "postgresql" else _cut_mariadb
        server = _Server(name, running.server, lambda: _answers(cut, running.port))
        server.restart(0)
        yield Place(
            url,
            {
                "restart": lambda chance: server.restart(chance.choice((0, 0, 2, 6))),
                "cut": lambda _: cut(running.port),
            },
        )
    server.process.stop()


def _hold(path: Path, chance: random.Random) -> None:
    """Write for some seconds, as a migration does; beside everything else."""

    def write(seconds: float) -> None:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            connection.execute("ROLLBACK")

    threading.Thread(target=write, args=(chance.uniform(1, 7),), daemon=True).start()


def _answers(ask: Callable[[int], None], port: int) -> bool:
    try:
        ask(port)
    except (psycopg.OperationalError, pymysql.err.OperationalError):
        return False
    return True


def _cut_postgresql(port: int) -> None:
    with psycopg.connect(
        host="127.0.0.1", port=port, user="postgres", dbname="postgres", connect_timeout=5
    ) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname LIKE 'test_%' AND pid <> pg_backend_pid()"
        )


def _cut_mariadb(port: int) -> None:
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user="root", connect_timeout=5, ssl_disabled=True
    )
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db LIKE 'test_%'")
        for (session,) in cursor.fetchall():
            try:
                cursor.execute(f"KILL {int(session)}")
            except pymysql.err.OperationalError:  # it went by itself
                continue
