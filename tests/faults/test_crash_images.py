"""What a crash leaves of an SQLite file: copies made while its writers stand still anywhere."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.helpers.processes import look_at
from tests.helpers.stores import assert_sound, make_tables, open_store
from tests.helpers.waiting import eventually, stays

IMAGES = 20
WRITERS = 2


@pytest.fixture
def writers(tmp_path: Path, sqlite_url: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that write jobs into the file, each with a ledger of its own."""
    make_tables(sqlite_url)
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.writer", sqlite_url, str(tmp_path / f"told-{n}")]
        )
        for n in range(WRITERS)
    ]
    yield started
    for process in started:
        process.kill()
        process.wait()


@contextmanager
def standing_still(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Nothing is written in here."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        for process in processes:
            eventually(lambda pid=process.pid: _state(pid) == "T", timeout=60)  # type: ignore[misc]
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


def _state(pid: int) -> str:
    seen = look_at(pid)
    assert seen is not None, "the writer has ended"
    return seen.state


def told(folder: Path) -> list[list[str]]:
    """What the writers know to be stored."""
    files = [folder / f"told-{number}" for number in range(WRITERS)]
    return [
        line.split() for file in files if file.exists() for line in file.read_text().splitlines()
    ]


def copied(folder: Path, number: int) -> Path:
    """The file and its log as they lie on the disk, without what SQLite keeps in memory."""
    image = folder / f"image-{number}.sqlite"
    for suffix in ("", "-wal"):
        source = Path(f"{folder / 'app.sqlite'}{suffix}")
        if source.exists():
            shutil.copyfile(source, f"{image}{suffix}")
    return image


def test_a_copy_of_any_moment_is_whole(
    tmp_path: Path, writers: list[subprocess.Popen[bytes]]
) -> None:
    moments = random.Random(os.environ.get("CRASH_IMAGES", "95"))
    known = 0
    for number in range(IMAGES):
        before = known
        eventually(lambda: len(told(tmp_path)) > before + 2, timeout=120)  # noqa: B023
        stays(lambda: True, seconds=moments.uniform(0, 0.03))
        with standing_still(writers):
            accepted = told(tmp_path)
            image = copied(tmp_path, number)
        known = len(accepted)

        with sqlite3.connect(image) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.close()
        check(image, accepted)


def check(image: Path, accepted: list[list[str]]) -> None:
    """Every invariant holds in the copy, and nothing is missing that somebody was told."""
    store = open_store(f"sqlite:///{image}", keep=True)
    try:
        assert_sound(store)
        jobs = store.database.tables.jobs
        rows = store.database.rows(sa.select(jobs.c.job_uuid, jobs.c.status, jobs.c.log_seq))
        there = {found["job_uuid"]: found for found in rows}
        for what, uuid in accepted:
            assert uuid in there, f"{what} and gone"
            if what == "ended":
                assert (there[uuid]["status"], there[uuid]["log_seq"]) == ("succeeded", 21)
    finally:
        store.database.engine.dispose()
