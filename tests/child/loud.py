"""Handlers that print a lot, or with programs that do; imported only by their jobs' processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

from flask_jobrunner import JobContext

COUNT = "import sys\nfor n in range(int(sys.argv[1])): sys.stdout.write(f'line {n}\\n')"


def idle(_ctx: JobContext) -> None:
    """Says nothing."""


def lines(ctx: JobContext) -> None:
    """`print` so many lines."""
    for number in range(ctx.payload["lines"]):
        print("line", number)


def inherited(ctx: JobContext) -> None:
    """A program that inherits the pipe prints them."""
    subprocess.run([sys.executable, "-c", COUNT, str(ctx.payload["lines"])], check=True)


def run(ctx: JobContext) -> int:
    """The same through `ctx.run`."""
    return ctx.run([sys.executable, "-c", COUNT, str(ctx.payload["lines"])]).lines


def threads(ctx: JobContext) -> None:
    """Four threads print, log and run programs at once."""

    def talk(name: str) -> None:
        for number in range(ctx.payload["lines"]):
            os.write(1, f"{name} {number}\n".encode())
            ctx.info(f"{name} info {number}")
        ctx.run(["sh", "-c", f"for n in 1 2 3; do echo {name} run $n; done"])

    started = [threading.Thread(target=talk, args=(name,)) for name in "abcd"]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def after_the_end(ctx: JobContext) -> None:
    """A program goes on printing when the job has ended."""
    script = "setsid sh -c 'while sleep 0.1; do echo late; done' & sleep 0.5; echo $!"
    subprocess.run(["sh", "-c", script], check=True)


def odd(_ctx: JobContext) -> None:
    """What no database and no page likes."""
    os.write(1, b"bytes \xff\xfe \xc3 nul \0 end\n")
    print("half \ud800 a character")
    print("\u2028 is no line end </script><!--")
    print("\x1b[1;31mred\x1b[0m \x1b]0;title\x07")
    os.write(2, b"10%\r20%\r30%\r\n")


def locked(ctx: JobContext) -> None:
    """Holds the write lock of the application's own database while it prints."""
    from tests.host_app import Entry, db

    db.session.add(Entry(name="held"))
    db.session.flush()
    for number in range(ctx.payload["lines"]):
        print(f"line {number} " + "x" * 200)
    db.session.commit()


def bars(ctx: JobContext) -> Any:
    """A real program's progress bar: `payload["argv"]`."""
    return ctx.run(ctx.payload["argv"], env={**os.environ, **ctx.payload.get("env", {})}).lines


def tqdm_bar(ctx: JobContext) -> None:
    """The real tqdm, in this process, on stderr."""
    from tqdm import tqdm

    for _ in tqdm(range(300), desc="rows", mininterval=0.01):
        time.sleep(0.005)
