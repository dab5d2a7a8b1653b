"""A private PgBouncer in transaction mode, before a PostgreSQL server of the tests."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator

import psycopg
import sqlalchemy as sa

from tests.servers import binaries, process

INSTALL = "install PgBouncer (Debian: apt-get install pgbouncer)"
NAME = "pgbouncer"
# So few connections to the server that no client keeps one from transaction to transaction.
SETTINGS = """
[databases]
* = host={host} port={port} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 300
"""


@contextlib.contextmanager
def pooled(url: str) -> Iterator[str]:
    """The URL of the same database by way of a pooler of its own. Raises ServerFailed."""
    program = binaries.find(NAME)
    if program is None:
        raise process.ServerFailed(INSTALL)
    real = sa.make_url(url)
    folder = process.private_directory("pgbouncer")
    config, log = folder / "pgbouncer.ini", folder / "log"

    def through(port: int) -> sa.URL:
        return real.set(host="127.0.0.1", port=port)

    def launch(port: int) -> process.ServerProcess:
        config.write_text(
            SETTINGS.format(host=real.host, port=real.port, user=real.username, listen=port)
        )
        if os.geteuid() == 0:
            os.chown(config, pwd.getpwnam("nobody").pw_uid, -1)
        return process.start(
            [program, config], log=log, answers=lambda: _answers(through(port)), unprivileged=True
        )

    port, running = process.on_free_port(launch)
    try:
        yield through(port).render_as_string(hide_password=False)
    finally:
        running.stop()


def _answers(url: sa.URL) -> bool:
    try:
        with psycopg.connect(
            host=url.host, port=url.port, user=url.username, dbname=url.database, connect_timeout=5
        ) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True
