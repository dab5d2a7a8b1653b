"""Every code block of the README, run as a reader would."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.processes import assert_no_process_left
from tests.helpers.waiting import eventually

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)


MARKERS = ["make demo", "shop", "bakery", "jobs work"]
"""What tells the console blocks apart, in their order."""


FILES = ("python", "jinja")
"""The languages of blocks that are files, with their name in the first line."""


def file_name(text: str) -> str:
    """What the first line of a block calls it."""
    return text.partition("\n")[0].strip("{# }")


class Reader:
    """Somebody who copies what the README shows into an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FLASK_")},
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
            "README_TEST": str(folder),
        }

    def copy(self, start: str) -> None:
        """Write the blocks whose file's name begins so."""
        for language, text in BLOCKS:
            name = file_name(text)
            if language in FILES and name.startswith(start):
                file = self.folder / name
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)

    def commands(self, marker: str) -> list[list[str]]:
        """The commands of the console block that says `marker`."""
        (block,) = [text for language, text in BLOCKS if language == "console" and marker in text]
        return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]

    def run(self, command: list[str]) -> str:
        """What the command says; it must succeed."""
        done = subprocess.run(
            self._found(command),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def serving(self, command: list[str]) -> Iterator[str]:
        """The address at which a `flask run` answers, until the end of the block."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        # The reloader would be a second process, and 5000 may be taken.
        extra = ["--port", str(port), "--no-reload"]
        server = subprocess.Popen(
            [*self._found(command), *extra],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: answers(port), timeout=30, message="the server answers")
            yield f"http://localhost:{port}"
        finally:
            server.terminate()
            server.wait(timeout=20)

    def _found(self, command: list[str]) -> list[str]:
        return [sys.executable, "-m", *command] if command[0] == "flask" else command


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def post(address: str, form: bytes = b"") -> tuple[str, bytes]:
    """Where the answer to a form is in the end, and the answer."""
    with urllib.request.urlopen(address, data=form, timeout=30) as answer:
        return answer.url, answer.read()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader who leaves no process behind."""
    yield Reader(tmp_path)
    assert_no_process_left(str(tmp_path), timeout=30)


def test_every_block_is_one_that_is_run_here() -> None:
    files = [file_name(text) for language, text in BLOCKS if language in FILES]
    console = [text for language, text in BLOCKS if language == "console"]

    assert len(files) + len(console) == len(BLOCKS)
    assert all(re.fullmatch(r"(shop|bakery/\w+)\.py|bakery/templates/\w+\.html", f) for f in files)
    assert [next((m for m in MARKERS if m in text), text) for text in console] == MARKERS


def test_the_smallest_application(reader: Reader) -> None:
    reader.copy("shop")
    run, curl, listing = reader.commands("shop")

    with reader.serving(run) as address:
        assert curl[:3] == ["curl", "-X", "POST"]
        _, answer = post(curl[3].replace("localhost:5000", address))
        started: dict[str, Any] = json.loads(answer)
        assert started["status"] == "started"
        uuid = started["job"]["uuid"]
        page = f"{address}/jobs/{uuid}"
        eventually(
            lambda: b"adding up month 12" in urllib.request.urlopen(page, timeout=10).read(),
            timeout=30,
            message="the page shows the last line",
        )

    assert "reports.build" in reader.run(listing)


def test_the_application_of_several_files(reader: Reader) -> None:
    reader.copy("bakery")
    export, *commands, serve = reader.commands("bakery")
    name, _, value = export[1].partition("=")
    reader.environment[name] = value
    for command in commands:
        reader.run(command)

    with reader.serving(serve) as address:
        page, answer = post(f"{address.replace('localhost', '127.0.0.1')}/orders", b"loaves=3")
        assert page.endswith("/orders/1")
        assert b"orders.bake" in answer
        eventually(
            lambda: b"loaf 3" in urllib.request.urlopen(page, timeout=10).read(),
            timeout=30,
            message="the page shows the last loaf",
        )
        eventually(
            lambda: b"labels.txt</a>" in urllib.request.urlopen(page, timeout=10).read(),
            timeout=30,
            message="the page offers the labels",
        )
    assert "No changes in schema detected" in reader.run(["flask", "db", "migrate"])

    reader.run(["flask", "jobs", "enqueue", "orders.bake", "--payload", '{"order_id": 1}'])
    (work,) = reader.commands("jobs work")
    assert "succeeded" in reader.run([*work, "--burst"])
