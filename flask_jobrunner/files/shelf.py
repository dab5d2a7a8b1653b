"""Where the bytes are: `JOBRUNNER_FILES_DIR`, a folder for each job, a random name for each file.

Nothing of a path comes from outside: the job's uuid and the kind of file are ours, the rest is
random. A name that somebody chose is in the row alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flask_jobrunner.model.files import FileKind

SHARDS = [f"{number:02x}" for number in range(256)]
PART = ".part"
"""The end of the name of a file that is still written."""
CHUNK = 1 << 20
TRIES = 20

_STORED = re.compile(r"([0-9a-f]{2})/([0-9a-f-]{36})/([io][0-9]+-[0-9a-f]{32})")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is known of bytes once they are on the disk."""

    size: int
    sha256: str


class Shelf:
    """The folder of all files. Methods raise `OSError` as the system does."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def begin(self, uuid: str, kind: FileKind, attempt: int) -> Path:
        """An empty file to write to, under a temporary name."""
        name = f"{kind[0]}{attempt}-{secrets.token_hex(16)}{PART}"
        for tries_left in reversed(range(TRIES)):
            try:
                part = self._make_folder(uuid) / name
                os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileNotFoundError:
                # Who removed the last file of an earlier attempt took the empty folder along.
                if not tries_left:
                    raise
            else:
                return part
        raise AssertionError("the last try returns or raises")

    def measure(self, part: Path) -> Measure:
        """Bring what was written to the disk, and measure it.

        A program may have put something else in its place: a link would be published, and what it
        leads to could change, or be any file of the system.
        """
        if not stat.S_ISREG(part.lstat().st_mode):
            raise OSError(errno.EINVAL, "It was replaced by something that is no file", str(part))
        digest, size = hashlib.sha256(), 0
        with part.open("rb") as file:
            while data := file.read(CHUNK):
                digest.update(data)
                size += len(data)
            os.fsync(file.fileno())
        return Measure(size=size, sha256=digest.hexdigest())

    def finish(self, part: Path) -> str:
        """Give a measured file its name, under which it does not change; its path below the root.

        Whoever may read the root may read it: a web server may be another user than a supervisor.
        """
        part.chmod(stat.S_IMODE(self.root.stat().st_mode) & 0o444 | stat.S_IRUSR)
        done = part.with_suffix("")
        part.rename(done)
        _sync(done.parent)
        return done.relative_to(self.root).as_posix()

    def find(self, uuid: str, path: str | None) -> Path | None:
        """The file of this job that a row names; None for a path that is none of ours."""
        match = _STORED.fullmatch(path or "")
        if match is None or match[2] != uuid or match[1] != uuid[-2:]:
            return None
        return self.root / match[0]

    def remove(self, uuid: str, path: str | None) -> None:
        """Remove one file, if it is there, and the job's folder if it was the last."""
        found = self.find(uuid, path)
        if found is not None:
            discard(found)
            self._remove_folder(found.parent)

    def entries(self, uuid: str) -> list[Path]:
        """What is in the job's folder, finished or not."""
        try:
            return sorted(self._folder(uuid).iterdir())
        except FileNotFoundError:
            return []

    def drop(self, uuid: str) -> None:
        """Remove all files of a job."""
        self.drop_entries(uuid, self.entries(uuid))

    def drop_entries(self, uuid: str, entries: list[Path]) -> None:
        """Remove some of what `entries` told."""
        for entry in entries:
            discard(entry)
        self._remove_folder(self._folder(uuid))

    def uuids(self, shard: str) -> Iterator[str]:
        """The jobs that have a folder in this part of the root."""
        with contextlib.suppress(FileNotFoundError):
            for entry in sorted((self.root / shard).iterdir()):
                if _UUID.fullmatch(entry.name):
                    yield entry.name

    def name_of(self, entry: Path) -> str:
        """An entry as a row would name it."""
        return entry.relative_to(self.root).as_posix()

    def _folder(self, uuid: str) -> Path:
        if not _UUID.fullmatch(uuid):
            raise ValueError(f"{uuid!r} is no uuid.")
        return self.root / uuid[-2:] / uuid

    def _make_folder(self, uuid: str) -> Path:
        folder = self._folder(uuid)
        if not self.root.is_dir():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(self.root.stat().st_mode)
        for one in (folder.parent, folder):
            try:
                one.mkdir()
            except FileExistsError:
                continue
            # As open as the root, whatever the umask: others who may write there write here.
            one.chmod(mode)
            _sync(one.parent)
        return folder

    def _remove_folder(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            folder.rmdir()


def discard(entry: Path) -> None:
    """Remove it, if it is there: also a folder, which some program made beside its output."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink(missing_ok=True)


def is_file(path: Path) -> bool:
    """Whether it is a file itself: nothing that the shelf holds is a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def is_older(entry: Path, seconds: float) -> bool:
    """Whether nothing was written to it for so long; False when it is gone."""
    try:
        return entry.stat().st_mtime < time.time() - seconds
    except FileNotFoundError:
        return False


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
