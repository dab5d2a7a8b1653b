"""The tests' own servers: fresh, empty, private, and gone at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.helpers.processes import assert_no_process_left, zombies_of
from tests.servers import mariadb, postgresql

ROOT = Path(__file__).parents[2]

SERVERS = [
    pytest.param("postgresql", marks=pytest.mark.postgresql),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]

# Takes a server, says where it is, and hangs as a test might.
INTERRUPTED_RUN = """
import signal
import threading
# Whoever runs the tests in the background may have it ignored, which is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.servers import {kind}
running = {kind}.start()
print(running.port, running.server.log.parent, flush=True)
threading.Event().wait()
"""


def test_database_is_empty_and_takes_four_byte_text(database_url: str) -> None:
    engine = sa.create_engine(database_url)
    table = sa.Table("words", sa.MetaData(), sa.Column("word", sa.String(20)))
    with engine.begin() as connection:
        tables_before = sa.inspect(connection).get_table_names()
        table.create(connection)
        connection.execute(table.insert(), {"word": "grün 🌱"})
        words = list(connection.scalars(sa.select(table.c.word)))
    engine.dispose()

    assert tables_before == []
    assert words == ["grün 🌱"]


@pytest.mark.parametrize("kind", SERVERS)
def test_a_forgotten_session_does_not_keep_its_database(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server: postgresql.PostgreSQL | mariadb.MariaDB = request.getfixturevalue(f"{kind}_server")
    with server.fresh_database() as url:
        engine = sa.create_engine(url)
        forgotten = engine.raw_connection()
        forgotten.detach()
        forgotten.cursor().execute("CREATE TABLE held (a INTEGER)")

    with pytest.raises(Exception, match=r"(?i)terminat|lost connection|closed|kill"):
        forgotten.cursor().execute("SELECT 1")
    forgotten.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
def test_servers_of_several_workers_start_at_once(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """As two workers do. In a shared folder for temporary tables one of them would fail."""
    request.getfixturevalue(f"{kind}_server")
    start: Callable[[], postgresql.PostgreSQL | mariadb.MariaDB] = globals()[kind].start
    with ThreadPoolExecutor(4) as pool:
        running = [future.result() for future in [pool.submit(start) for _ in range(4)]]

    for one in running:
        one.server.stop()
    assert len({one.port for one in running}) == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_server_ends_with_the_run_that_started_it(
    kind: str, how: signal.Signals, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(f"{kind}_server")
    run = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_RUN.format(kind=kind)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    assert run.stdout is not None
    with run.stdout:
        port, directory = run.stdout.readline().split()
    run.send_signal(how)
    run.wait(60)

    assert_no_process_left(port, timeout=20)
    assert not zombies_of(os.getpid())
    shutil.rmtree(directory, ignore_errors=True)
