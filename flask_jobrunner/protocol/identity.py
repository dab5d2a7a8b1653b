"""Which process is which, and whether it still lives.

A process is its boot, its PID namespace, its pid and its start ticks (field 22 of
`/proc/PID/stat`, see proc(5)): pids are reused, wall-clock start times move when the clock is
set, and a container shows the host's boot id but other pids.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from functools import lru_cache
from pathlib import Path
from typing import Literal

from flask_jobrunner.model.records import NOBODY, Identity

Look = Literal["alive", "dead", "unseen"]
_PROC = Path("/proc")


def boot_id() -> str | None:
    """This boot's id, or None where the system has none to read."""
    try:
        return _read_boot_id()
    except OSError:
        return None


@lru_cache(maxsize=1)
def _read_boot_id() -> str:
    # Raises instead of answering None: what failed for a moment must not be kept.
    return (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()


def pid_namespace() -> str | None:
    """The PID namespace's inode as text, such as `pid:[4026531836]`."""
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None


def read_stat(pid: int) -> tuple[str, int] | None:
    """(state letter, start ticks) of a process, or None where there is none to read."""
    try:
        data = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The command's name may hold anything, also blanks and parentheses: read after the last one.
    rest = data[data.rfind(b")") + 2 :].split()
    try:
        return rest[0].decode("ascii"), int(rest[19])
    except (IndexError, ValueError):
        return None


def of_pid(pid: int, instance: str | None = None) -> Identity:
    """The identity of a process of this host as it is now."""
    stat = read_stat(pid)
    boot, namespace = boot_id(), pid_namespace()
    return Identity(
        instance=instance,
        incarnation=_incarnation(boot, namespace) if instance else None,
        host=socket.gethostname()[:255],
        boot=boot,
        pid_ns=namespace,
        pid=pid,
        ticks=stat[1] if stat else None,
    )


def _incarnation(boot: str | None, namespace: str | None) -> str | None:
    """What changes when a container is started anew; None while that cannot be read."""
    first = read_stat(1)
    if boot is None or namespace is None or first is None:
        return None
    return f"{boot}/{namespace}/{first[1]}"


def this_process(instance: str | None = None) -> Identity:
    """The identity of the process that asks."""
    return of_pid(os.getpid(), instance)


def parent_process(instance: str | None = None) -> Identity:
    """The identity of the parent; `NOBODY` where the parent is already gone."""
    parent = os.getppid()
    return of_pid(parent, instance) if parent > 1 else NOBODY


def look(identity: Identity, instance: str | None = None) -> Look:
    """Whether the process lives, as far as this process can see.

    `unseen` is neither: another host, another PID namespace, or nothing readable. A zombie is
    dead. Another boot of this machine, or another incarnation of the same `instance`, is dead.
    """
    here = this_process(instance)
    if instance and identity.instance == instance and _differ(identity, here):
        return "dead"
    if identity.host != here.host or identity.boot is None or here.boot is None:
        return "unseen"
    if identity.boot != here.boot:
        return "dead"
    if (
        identity.pid is None
        or identity.pid_ns != here.pid_ns
        or identity.ticks is None
        or here.ticks is None
    ):
        return "unseen"
    return _look_here(identity.pid, identity.ticks)


def _differ(identity: Identity, here: Identity) -> bool:
    """Whether two incarnations are known and not the same."""
    known = None not in (identity.incarnation, here.incarnation)
    return known and identity.incarnation != here.incarnation


def _look_here(pid: int, ticks: int) -> Look:
    stat = read_stat(pid)
    if stat is None:
        # "May not look" (hidepid) is not "is gone": only a kernel that denies the pid proves that.
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return "dead"
        except PermissionError:
            return "unseen"
        return _look_again(pid, ticks)
    state, seen = stat
    return "alive" if seen == ticks and state not in "ZX" else "dead"


def _look_again(pid: int, ticks: int) -> Look:
    stat = read_stat(pid)
    if stat is None:
        return "unseen"
    return "alive" if stat[1] == ticks and stat[0] not in "ZX" else "dead"


def uuid7() -> str:
    """A UUIDv7 (RFC 9562): 48 bits of milliseconds, then 74 random bits. Sorts by time."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
