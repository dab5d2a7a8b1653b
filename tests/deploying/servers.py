"""Web servers as processes of their own, on ports of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.processes import Seen, descendants_of, is_running, processes_with
from tests.helpers.waiting import eventually

PATIENCE = 60.0


@dataclass
class Web:
    """One server; started again, it is another process on the same port."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """What it has written."""
        return self._log.read_text(errors="replace")

    @property
    def _log(self) -> Path:
        return self.folder / "web.log"

    def run(self, argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> None:
        """Start it and wait until it answers."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd=self.folder,
            )
        eventually(self._answers, timeout=PATIENCE, message=lambda: self.log)

    def ask(self, path: str, given: object = None, *, timeout: float = PATIENCE) -> bytes:
        """The answer to a GET, or to a POST of `given` as JSON."""
        data = None if given is None else json.dumps(given).encode()
        question = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(question, timeout=timeout) as answer:
            found: bytes = answer.read()
        return found

    def start_job(self, payload: dict[str, Any]) -> dict[str, Any]:
        """What `jobs.start` says in the server."""
        found: dict[str, Any] = json.loads(self.ask("/start", payload))
        return found

    def worker(self) -> int:
        """The process that answers now."""
        return int(self.ask("/pid"))

    def changes_worker(self, old: int) -> int:
        """Ask until another process answers and the old one is gone; the new one."""

        def changed() -> int | None:
            try:
                now = self.worker()
            except OSError:  # reset by a worker that ends, or no answer yet
                return None
            return now if now != old and not is_running(old) else None

        return eventually(changed, timeout=PATIENCE, message=lambda: self.log) or old

    def hang(self) -> None:
        """Send a request that never ends, and wait until the server ends its worker."""
        with suppress(OSError):
            self.ask("/hang")

    def zombies(self) -> list[Seen]:
        """What ended below this server and was not waited for."""
        assert self.process is not None
        return [seen for seen in descendants_of(self.process.pid) if seen.is_zombie]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Have it end in order; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.process = None
        return code

    def kill(self) -> None:
        """End it if it still runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        with suppress(OSError):
            return bool(self.worker())
        return False


class Gunicorn(Web):
    """Configured by a file that it reads again on HUP."""

    def configure(self, worker_class: str, **settings: object) -> None:
        """Write the file; `settings` win over what a test needs."""
        values: dict[str, object] = {
            "bind": f"127.0.0.1:{self.port}",
            "workers": 1,
            "worker_class": worker_class,
            # With more than one, gunicorn takes gthread where sync is asked for.
            "threads": 4 if worker_class == "gthread" else 1,
            "graceful_timeout": 10,
            "control_socket_disable": True,
            **settings,
        }
        lines = [f"{name} = {value!r}\n" for name, value in values.items()]
        self._file.write_text("".join(lines))

    def serve(self) -> None:
        """Start it."""
        program = [sys.executable, "-m", "gunicorn", "--config", str(self._file)]
        self.run([*program, "tests.deploying.served:create_app()"])

    def reload(self) -> None:
        """Have it read its configuration again and replace its workers."""
        assert self.process is not None
        old = self.worker()
        self.process.send_signal(signal.SIGHUP)
        self.changes_worker(old)

    @property
    def _file(self) -> Path:
        return self.folder / "gunicorn.conf.py"


class UWSGI(Web):
    """A uWSGI with this environment's packages."""

    def serve(self, *options: str) -> None:
        """Start it."""
        program = uwsgi_program()
        assert program is not None
        virtual = ["--virtualenv", sys.prefix] if sys.prefix != sys.base_prefix else []
        self.run([program, "--http-socket", f"127.0.0.1:{self.port}", "--master", "--need-app",
                  "--die-on-term", *virtual, "--module", "tests.deploying.served:create_app()",
                  *options])  # fmt: skip


def uwsgi_program() -> str | None:
    """uWSGI, if it is here: $UWSGI, or found on the path."""
    return os.environ.get("UWSGI") or shutil.which("uwsgi")


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def can_be_bound(port: int) -> bool:
    """Whether a new server could listen here, as servers do it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind(("127.0.0.1", port))
            probe.listen()
            return True
    return False


def listening_inode(port: int) -> str:
    """The socket that listens on a port, as the links in /proc/PID/fd name it."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(f":{port:04X}") and fields[3] == "0A":
            return f"socket:[{fields[9]}]"
    raise AssertionError(f"nobody listens on {port}")


def held_by(pid: int) -> set[str]:
    """What a process has open."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found.add(str(link.readlink()))
    return found


def shims_and_children(mark: str) -> tuple[list[int], list[int]]:
    """The processes of jobs: those that watch, and those that run."""
    seen = processes_with(mark)
    watching = [one.pid for one in seen if re.search(r" -I -S (-B )?\S*/shim ", one.command)]
    running = [one.pid for one in seen if one.parent in watching]
    return watching, running
