"""What happens at a fault point: the tests' host application arms it when its environment asks.

`HOST_FAULTS` is a JSON object: `point`, `action`, `role` (of the process), `hit` (the n-th time
that a process comes there) and `mark`, a file that the one process makes in which it happens.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy import make_url

from flask_jobrunner import process_role
from flask_jobrunner.protocol.fault_points import ASKS, arm

FAULTS = "HOST_FAULTS"
Action = Literal["kill", "stop", "raise", "disconnect"]


class Faulted(Exception):
    """What the action `raise` raises."""


@dataclass(frozen=True)
class Fault:
    """One fault, which happens once whatever number of processes comes by."""

    point: str
    action: Action
    role: str
    mark: str
    database: str
    hit: int = 1
    after: str | None = None
    """A file: only what comes by once something is written in it counts."""

    def environ(self) -> dict[str, str]:
        """What a process needs in its environment, and hands on to its children."""
        return {FAULTS: json.dumps(asdict(self)), **dict.fromkeys(ASKS, "1")}

    @property
    def pid(self) -> int | None:
        """The process in which it happened; None: not yet."""
        with suppress(OSError, ValueError):
            return int(Path(self.mark).read_text(encoding="ascii"))
        return None


def arm_from(environ: Mapping[str, str]) -> None:
    """Arm the fault of the environment, if there is one."""
    if environ.get(FAULTS):
        arm(_Hook(Fault(**json.loads(environ[FAULTS]))))


class _Hook:
    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._hits = 0

    def __call__(self, name: str) -> None:
        after = self._fault.after
        if name != self._fault.point or process_role() != self._fault.role:
            return
        if after is not None and not _is_written(Path(after)):
            return
        self._hits += 1
        if self._hits == self._fault.hit and _is_first(self._fault.mark):
            ACTIONS[self._fault.action](self._fault)


def _is_written(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _is_first(mark: str) -> bool:
    """Whether no other process made the file; it is complete as soon as it is there."""
    own = f"{mark}.{os.getpid()}"
    Path(own).write_text(str(os.getpid()), encoding="ascii")
    try:
        os.link(own, mark)
    except FileExistsError:
        return False
    return True


def _send(number: int) -> Callable[[Fault], None]:
    return lambda _: os.kill(os.getpid(), number)


def _raise(fault: Fault) -> None:
    raise Faulted(fault.point)


def _disconnect(fault: Fault) -> None:
    """Have the server end every connection to this database."""
    # A job's process that has no fault here need not wait for these.
    import psycopg
    import pymysql

    url = make_url(fault.database)
    if url.get_backend_name() == "postgresql":
        with psycopg.connect(
            host=url.host, port=url.port, user=url.username, dbname="postgres", autocommit=True
        ) as admin:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            admin.execute(ended, [url.database])
        return
    with (
        closing(
            pymysql.connect(
                host=url.host,
                port=url.port or 0,
                user=url.username,
                autocommit=True,
                ssl_disabled=True,
            )
        ) as server,
        server.cursor() as cursor,
    ):
        listed = "SELECT id FROM information_schema.processlist WHERE db = %s"
        cursor.execute(listed, [url.database])
        for (session,) in cursor.fetchall():
            with suppress(pymysql.err.OperationalError):
                cursor.execute(f"KILL {int(session)}")


ACTIONS: dict[str, Callable[[Fault], None]] = {
    "kill": _send(signal.SIGKILL),
    "stop": _send(signal.SIGSTOP),
    "raise": _raise,
    "disconnect": _disconnect,
}
