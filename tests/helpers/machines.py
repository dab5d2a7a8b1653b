"""Other hosts on this machine: a name, process ids, a boot and a network of their own.

All that reaches out of such a network is one way to the database, which a test can cut.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import host_app
from tests.helpers import requirements
from tests.helpers.commands import Answer
from tests.helpers.hosts import HostEnvironment
from tests.helpers.lossy import LossyProxy, proxy_at
from tests.helpers.processes import children_of, descendants_of, is_running
from tests.helpers.supervising import Supervisors, Working
from tests.helpers.waiting import eventually

INSTALL = "namespaces need util-linux (unshare, nsenter) and a root who may make them"
SPACES = ("--net", "--uts", "--pid", "--mount")
# $1: its name; $2: a file that takes the place of the boot id, or nothing.
BEGIN = """
echo "$1" > /proc/sys/kernel/hostname || exit 9
[ -z "$2" ] || mount --bind "$2" /proc/sys/kernel/random/boot_id || exit 9
echo ready
exec sleep infinity
"""
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


@dataclass
class Machine:
    """One of them; its processes are ended with it."""

    name: str
    environment: HostEnvironment
    process: subprocess.Popen[bytes]
    first: int
    """Its process 1, as this machine numbers it."""
    environ: dict[str, str]
    proxy: LossyProxy | None = None
    """Its way to a database that is a server."""
    entered: list[Working] = field(default_factory=list)

    def argv(self, *command: str) -> list[str]:
        """`command`, run there."""
        return ["nsenter", f"--target={self.first}", *SPACES, "--", *command]

    def work(self, pull: Supervisors, *arguments: object, **environ: str) -> Working:
        """Start `flask jobs work` there."""
        argv = self.argv(*self.environment.command("jobs", "work"))
        environment: dict[str, Any] = self.environ | environ
        working = pull.work(*arguments, argv=argv, **environment)
        self.entered.append(working)
        return working

    def run(self, *arguments: str, **environ: str) -> Answer:
        """Run `flask jobs …` there to its end."""
        done = subprocess.run(
            self.argv(*self.environment.command("jobs", *arguments)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **self.environ, **environ},
            timeout=90,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def signal(self, number: int) -> None:
        """Send a signal to everything that was started there."""
        for working in self.entered:
            for seen in descendants_of(working.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(seen.pid, number)

    def cut_off(self) -> None:
        """Let nothing come through any more, and say nothing about it."""
        assert self.proxy is not None
        self.proxy.silent = True
        self.proxy.cut_all()

    def reconnect(self) -> None:
        """Let it reach its database again."""
        assert self.proxy is not None
        self.proxy.silent = False
        self.proxy.cut_all()

    def kill(self) -> None:
        """End all of its processes at once: the kernel does when their process 1 ends."""
        if is_running(self.first):
            os.kill(self.first, signal.SIGKILL)
        eventually(self._is_over, timeout=60)

    def _is_over(self) -> bool:
        # `nsenter` stops together with what it started; the kernel waits until it has reaped that.
        for working in self.entered:
            if is_running(working.pid):
                os.kill(working.pid, signal.SIGCONT)
        return self.process.poll() is not None and not is_running(self.first)


def supervisor_in(working: Working) -> int:
    """The supervisor itself, which `nsenter` started."""
    (seen,) = children_of(working.pid)
    return seen.pid


def worker_in(working: Working) -> int:
    """The process of its only job."""
    (seen,) = [one for one in children_of(supervisor_in(working)) if not one.is_zombie]
    return seen.pid


Machines = Callable[..., Machine]


@contextmanager
def machines(environment: HostEnvironment, folder: Path) -> Iterator[Machines]:
    """Makes machines; `same_boot` is a container's: it shares this machine's boot."""
    with contextlib.ExitStack() as close_later:

        def make(name: str, *, same_boot: bool = False, **config: object) -> Machine:
            boot = ""
            if not same_boot:
                boot = str(folder / f"{name}.boot")
                Path(boot).write_text(f"{uuid.uuid4()}\n")
            process, first = _begin(name, boot)
            settings = json.loads(os.environ[host_app.CONFIG]) | config
            settings["JOBRUNNER_SPOOL_DIR"] = str(folder / f"spool-{name}")
            environ = {host_app.CONFIG: json.dumps(settings)}
            machine = Machine(name, environment, process, first, environ)
            close_later.callback(machine.kill)
            url = os.environ[host_app.DATABASE]
            if not url.startswith("sqlite"):
                machine.proxy = close_later.enter_context(_way_out(first, url))
                environ[host_app.DATABASE] = machine.proxy.url(url)
            return machine

        yield make


def _begin(name: str, boot: str) -> tuple[subprocess.Popen[bytes], int]:
    if os.geteuid() != 0:
        pytest.skip("only root may make namespaces with a network and process ids of their own")
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        requirements.missing("unshare", INSTALL)
    # However the tests end, so does the machine.
    dies = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    spaces = [*SPACES, "--fork", "--kill-child", "--mount-proc"]
    process = subprocess.Popen(
        [*dies, "unshare", *spaces, "sh", "-c", BEGIN, "sh", name, boot],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it remarks on signals while it is killed
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        ready = output.readline()
    if ready != b"ready\n":
        process.kill()
        process.wait()
        requirements.missing("the right to make namespaces", INSTALL)
    (first,) = [seen.pid for seen in children_of(process.pid)]
    return process, first


@contextmanager
def _way_out(first: int, url: str) -> Iterator[LossyProxy]:
    """A listener on the loopback of its network, whose other side is in ours."""
    found: list[socket.socket] = []
    # A thread may be in another network than its process, and what it opens stays there.
    thread = threading.Thread(target=lambda: found.append(_listen_in(first)))
    thread.start()
    thread.join()
    (listener,) = found
    with proxy_at(listener, url) as proxy:
        yield proxy


def _listen_in(first: int) -> socket.socket:
    with Path(f"/proc/{first}/ns/net").open("rb") as network:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(network.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    return socket.create_server(("127.0.0.1", 0))
