"""What jobs and programs really print, from the process to the rows and the page."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask

from flask_jobrunner import Job, JobRunner
from flask_jobrunner.dashboard.ansi import coloured
from flask_jobrunner.protocol.terminal import strip_escapes
from flask_jobrunner.recovery.settle import AFTER_THE_END
from flask_jobrunner.runtime import Runtime
from tests.child import loud
from tests.helpers import requirements
from tests.helpers.waiting import eventually

HANDLERS = [name for name, value in vars(loud).items() if callable(value) and name.islower()]
MILLION = 1_000_000
MEMORY = 64 << 20


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_HANDLERS": {f"loud.{name}": f"tests.child.loud:{name}" for name in HANDLERS}}


@pytest.fixture
def runtime(host_app: Flask) -> Runtime:
    found: Runtime = host_app.extensions["jobrunner"]
    return found


def ended(jobs: JobRunner, name: str, seconds: float = 120, **payload: Any) -> Job:
    started = jobs.start(f"loud.{name}", payload)
    assert started.status == "started", started
    job = jobs.wait(started.job.uuid, timeout=seconds)
    assert job.is_terminal
    return job


def rows(runtime: Runtime, job: Job) -> list[tuple[str, str, str]]:
    """(message, stream, level) of all lines, after a look at their numbers."""
    logs = runtime.database.tables.logs
    columns = (logs.c.seq, logs.c.message, logs.c.stream, logs.c.level)
    found = runtime.database.rows(
        sa.select(*columns).where(logs.c.job_id == job.id).order_by(logs.c.seq)
    )
    assert [row["seq"] for row in found] == list(range(1, len(found) + 1))
    return [(row["message"], row["stream"], row["level"]) for row in found]


def printed(runtime: Runtime, job: Job) -> list[str]:
    return [message for message, stream, _ in rows(runtime, job) if stream]


def peak(runtime: Runtime, job: Job) -> int:
    """What the job's process took at most; known a moment after its end."""

    def of_attempt() -> int | None:
        return runtime.attempts.of(job.id)[0].peak_rss

    eventually(lambda: of_attempt() is not None)
    return of_attempt() or 0


def check_lines(jobs: JobRunner, runtime: Runtime, name: str, count: int) -> None:
    at_rest = peak(runtime, ended(jobs, "idle"))
    job = ended(jobs, name, seconds=900, lines=count)
    assert job.status == "succeeded"
    assert printed(runtime, job) == [f"line {number}" for number in range(count)]
    assert peak(runtime, job) < at_rest + MEMORY


@pytest.mark.parametrize("name", ["lines", "inherited", "run"])
def test_many_lines_come_whole_and_in_order(
    host_jobs: JobRunner, runtime: Runtime, name: str
) -> None:
    check_lines(host_jobs, runtime, name, 30_000)


@pytest.mark.million
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["lines", "inherited", "run"])
def test_a_million_lines_come_whole_and_in_bounded_memory(
    host_jobs: JobRunner, runtime: Runtime, name: str
) -> None:
    check_lines(host_jobs, runtime, name, MILLION)


def test_lines_of_threads_stay_whole(host_jobs: JobRunner, runtime: Runtime) -> None:
    job = ended(host_jobs, "threads", lines=300)
    messages = [message for message, _, _ in rows(runtime, job)]
    for name in "abcd":
        own = [message for message in messages if message.startswith(f"{name} ")]
        plain = [f"{name} {number}" for number in range(300)]
        assert [message for message in own if message in set(plain)] == plain
        said = [f"{name} info {number}" for number in range(300)]
        assert [message for message in own if message in set(said)] == said
        assert [message for message in own if " run " in message] == [
            f"{name} run {number}" for number in (1, 2, 3)
        ]


def test_what_no_database_and_no_page_likes(host_jobs: JobRunner, runtime: Runtime) -> None:
    job = ended(host_jobs, "odd")
    found = rows(runtime, job)
    messages = [message for message, _, _ in found]
    assert "bytes \ufffd\ufffd \ufffd nul \\u0000 end" in messages
    assert "half \\ud800 a character" in messages
    assert "\u2028 is no line end </script><!--" in messages
    assert "\x1b[1;31mred\x1b[0m \x1b]0;title\x07" in messages
    assert ("30%", "stderr", "info") in found
    assert not any("20%" in message for message in messages)


def test_output_after_the_end_is_nobodys(host_jobs: JobRunner, runtime: Runtime) -> None:
    job = ended(host_jobs, "after_the_end")
    assert job.status == "succeeded"
    assert peak(runtime, job)  # the report is recorded, with what came until then
    before = rows(runtime, job)
    os.kill(int(next(message for message, _, _ in before if message.isdecimal())), 9)
    messages = [message for message, _, _ in before]
    end = messages.index("Succeeded")
    assert "late" in messages[:end]
    late = messages[end + 1 :]
    assert late[:1] in ([], [AFTER_THE_END])
    assert set(late[1:]) <= {"late"}
    assert rows(runtime, job) == before


@pytest.mark.slow
def test_a_handler_that_holds_the_lock_which_its_own_log_needs(
    host_jobs: JobRunner, runtime: Runtime
) -> None:
    """On SQLite the writer waits for the handler, and the handler for the writer."""
    job = ended(host_jobs, "locked", lines=150_000)
    assert job.status == "succeeded"
    found = rows(runtime, job)
    numbers = [int(message.split()[1]) for message, _, _ in found if message.startswith("line ")]
    assert numbers == sorted(set(numbers))
    dropped = [message for message, _, level in found if level == "warning"]
    counts = [int(re.sub(r"\D", "", text.partition(" ")[0])) for text in dropped]
    assert sum(counts) + len(numbers) == 150_000
    if runtime.database.dialect != "sqlite":
        assert dropped == []


# --- real programs and their bars -----------------------------------------------------------


def shown(message: str) -> str:
    """What of a line stands on the page."""
    return re.sub("<[^>]*>", "", coloured(message)[0]).strip()


@pytest.fixture
def only_sqlite(runtime: Runtime) -> None:
    if runtime.database.dialect != "sqlite":
        pytest.skip("what a program prints does not depend on the database")


@pytest.fixture
def bar(host_jobs: JobRunner, runtime: Runtime, only_sqlite: None) -> Any:
    return partial(_bar, host_jobs, runtime)


def _bar(jobs: JobRunner, runtime: Runtime, name: str, *argv: str, **env: str) -> list[str]:
    payload: dict[str, Any] = {"argv": list(argv), "env": env} if argv else {}
    job = ended(jobs, name, **payload)
    assert job.status == "succeeded", job.error_message
    messages = printed(runtime, job)
    assert not any("\r" in message or "\n" in message for message in messages)
    return [shown(message) for message in messages]


def test_the_real_tqdm(bar: Any) -> None:
    pytest.importorskip("tqdm")
    lines = bar("tqdm_bar")
    assert lines[-1].startswith("rows: 100%|")
    assert "300/300" in lines[-1]
    assert len(lines) <= 12


NESTED = """
from tqdm import tqdm
import time
for _ in tqdm(range(3), desc="outer", mininterval=0):
    for _ in tqdm(range(20), desc="inner", mininterval=0, leave=False):
        time.sleep(0.005)
"""
RICH = """
from rich.progress import track
import time
for _ in track(range(60), description="loading"):
    time.sleep(0.01)
print("after")
"""


def test_nested_bars_of_the_real_tqdm(bar: Any) -> None:
    pytest.importorskip("tqdm")
    lines = bar("bars", sys.executable, "-c", NESTED)
    assert any(line.startswith("outer: 100%") for line in lines[-2:])
    assert len(lines) <= 15


def test_the_real_rich(bar: Any) -> None:
    pytest.importorskip("rich")
    lines = bar("bars", sys.executable, "-c", RICH, FORCE_COLOR="1", TERM="xterm", COLUMNS="80")
    assert lines[-1] == "after"
    assert re.match(r"loading ━+ 100% ", lines[-2])
    assert len(lines) <= 8


@pytest.fixture
def package_index(tmp_path: Path) -> Iterator[str]:
    """A local index with one package that takes a moment to download."""
    folder = tmp_path / "simple" / "large-thing"
    folder.mkdir(parents=True)
    data = io.BytesIO()
    info = "large_thing-1.dist-info"
    with zipfile.ZipFile(data, "w") as wheel:
        wheel.writestr("large_thing.bin", os.urandom(8 << 20))
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: large-thing\nVersion: 1.0\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    name = "large_thing-1-py3-none-any.whl"
    (folder / name).write_bytes(data.getvalue())
    (folder / "index.html").write_text(f'<a href="{name}">{name}</a>')
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


def test_the_real_pip(bar: Any, package_index: str, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--isolated", "--no-cache-dir"]
    options = ["--disable-pip-version-check", "--no-deps", "--dest", str(tmp_path / "down")]
    command = [*pip, "download", *options, "--index-url", package_index, "large-thing"]
    lines = bar("bars", *command, FORCE_COLOR="1", TERM="xterm", COLUMNS="100")
    bars = [line for line in lines if "━" in line]
    assert bars
    assert "8.4/8.4 MB" in bars[-1]
    assert len(bars) <= 6
    assert "Successfully downloaded large-thing" in [strip_escapes(line) for line in lines]


def test_the_real_ffmpeg(bar: Any, tmp_path: Path) -> None:
    if shutil.which("ffmpeg") is None:
        requirements.missing("ffmpeg", "`apt-get install ffmpeg` brings it on Debian")
    source = ["-f", "lavfi", "-i", "testsrc=duration=4:size=320x240:rate=25"]
    film = str(tmp_path / "film.mkv")
    lines = bar("bars", "ffmpeg", "-hide_banner", "-stats_period", "0.05", *source, film)
    states = [line for line in lines if line.startswith("frame=")]
    assert re.match(r"frame=\s*100 ", states[-1])
    assert len(states) <= 40
    assert any(line.startswith("Input #0, lavfi") for line in lines)
