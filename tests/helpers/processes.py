"""Looking at the machine's processes through /proc: children, zombies, whatever was left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.waiting import eventually


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One process as /proc showed it."""

    pid: int
    parent: int
    state: str
    command: str

    @property
    def is_zombie(self) -> bool:
        return self.state in {"Z", "X"}


def look_at(pid: int) -> Seen | None:
    """The process with this id, or None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may itself hold parentheses and spaces.
    name, rest = stat.partition("(")[2].rpartition(")")[::2]
    fields = rest.split()
    words = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return Seen(pid=pid, parent=int(fields[1]), state=fields[0], command=words or f"[{name}]")


def all_processes() -> list[Seen]:
    """Everything that runs on this machine now."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [seen for pid in pids if (seen := look_at(pid)) is not None]


def children_of(pid: int) -> list[Seen]:
    """The direct children of `pid`, zombies included."""
    return [seen for seen in all_processes() if seen.parent == pid]


def descendants_of(pid: int) -> list[Seen]:
    """Children, their children and so on; one that was re-parented is not among them."""
    everyone = all_processes()
    family = {pid}
    found: list[Seen] = []
    grown = True
    while grown:
        new = [s for s in everyone if s.parent in family and s.pid not in family]
        family.update(s.pid for s in new)
        found += new
        grown = bool(new)
    return found


def zombies_of(pid: int) -> list[Seen]:
    """The children of `pid` that ended and were not waited for."""
    return [seen for seen in children_of(pid) if seen.is_zombie]


def is_running(pid: int) -> bool:
    """Whether `pid` still runs; a zombie does not."""
    seen = look_at(pid)
    return seen is not None and not seen.is_zombie


def processes_with(marker: str) -> list[Seen]:
    """The processes, other than this one, with `marker` in their arguments or environment."""
    needle = marker.encode()
    return [
        seen
        for seen in all_processes()
        if seen.pid != os.getpid() and not seen.is_zombie and _mentions(seen.pid, needle)
    ]


def assert_no_process_left(marker: str, *, timeout: float = 40.0) -> None:
    """Fail when, `timeout` seconds from now, a process still mentions `marker`."""
    eventually(
        lambda: not processes_with(marker),
        timeout=timeout,
        message=lambda: f"processes are left: {processes_with(marker)}",
    )


def _mentions(pid: int, needle: bytes) -> bool:
    for name in ("cmdline", "environ"):
        try:
            if needle in Path(f"/proc/{pid}/{name}").read_bytes():
                return True
        except OSError:  # gone meanwhile, or another user's
            continue
    return False
