"""Where a server's programs are, on PATH or where Debian keeps them off it."""

from __future__ import annotations

import shutil
from pathlib import Path


def find(name: str) -> Path | None:
    """The program of this name, or None."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    for folder in ("/usr/sbin", "/usr/local/sbin", "/sbin"):
        if (path := Path(folder, name)).exists():
            return path
    return None


def find_postgresql(name: str) -> Path | None:
    """A PostgreSQL server program: `initdb` and `postgres` must come from one version."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: int(folder.parent.name) if folder.parent.name.isdecimal() else 0,
        reverse=True,
    )
    for folder in versions:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder / name
    return find(name)
