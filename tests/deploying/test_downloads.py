"""The whole log of a job as a file, from a real server: every byte, in little memory."""

from __future__ import annotations

import hashlib
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.dashboard.seeding import add_job
from tests.deploying import served
from tests.deploying.servers import PATIENCE, Web, free_port
from tests.helpers.long_logs import fill_log, texts

FEW, MANY = 2_100, 6_600
PADDING = "x" * 16_000
MEMORY = 24 << 20
AT_ONCE = 1 << 16


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    server = Web(tmp_path, free_port())
    yield server
    server.kill()


def peak(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def test_a_long_download_is_every_stored_byte_and_takes_no_memory(
    host_app: Flask, web: Web
) -> None:
    check_download(host_app, web, FEW)


@pytest.mark.million
def test_a_download_of_100_mb_is_every_stored_byte_and_takes_no_memory(
    host_app: Flask, web: Web
) -> None:
    assert check_download(host_app, web, MANY) > 100_000_000


def check_download(host_app: Flask, web: Web, lines: int) -> int:
    """Copy a log of so many long lines; how many bytes that were."""
    runtime = host_app.extensions["jobrunner"]
    uuid = add_job(runtime, "succeeded")
    fill_log(runtime, uuid, lines, padding=PADDING)
    few = add_job(runtime, "succeeded")
    fill_log(runtime, few, 100)
    command = [sys.executable, "-m", "flask", "--app", served.APP, "run", "--port", str(web.port)]
    web.run(command)
    web.ask(f"/jobs/{few}/log.txt")
    before = peak(web.worker())

    size, digest = copied(f"http://127.0.0.1:{web.port}/jobs/{uuid}/log.txt")

    expected = (f"{text}\n".encode() for text in texts(lines, PADDING))
    assert size > MEMORY
    assert digest == hashed(expected)
    assert peak(web.worker()) - before < MEMORY
    return size


def copied(url: str) -> tuple[int, str]:
    """The size of an answer and its digest."""
    size, digest = 0, hashlib.sha256()
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        while piece := answer.read(AT_ONCE):
            size += len(piece)
            digest.update(piece)
    return size, digest.hexdigest()


def hashed(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
