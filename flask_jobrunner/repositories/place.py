"""Where a file lies: a network file system breaks the locks that SQLite lives by."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
_NETWORK = frozenset(
    {
        "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.davfs",
        "fuse.gcsfuse", "fuse.glusterfs", "fuse.gvfsd-fuse", "fuse.juicefs", "fuse.rclone",
        "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
        "ocfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
    }
)  # fmt: skip
_OCTAL = re.compile(r"\\([0-7]{3})")


def network_filesystem(path: str) -> str | None:
    """The kind of network file system that `path` lies on, such as `nfs4`; None: on none known."""
    if not path:
        return None
    try:
        return _kind(os.path.realpath(path), MOUNTS.read_text("utf-8", "surrogateescape"))
    except OSError:
        return None


@lru_cache(maxsize=16)
def _kind(path: str, mounts: str) -> str | None:
    found, best = None, -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), fields[1])
        # Of two mounts on one point the later one is seen.
        if len(point) >= best and (path == point or path.startswith(point.rstrip("/") + "/")):
            found, best = fields[2], len(point)
    return found if found in _NETWORK else None
