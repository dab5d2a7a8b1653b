"""`files=`: checked whole before anything is stored, then copied before the job's row."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from flask_jobrunner.model import words
from flask_jobrunner.model.errors import DatabaseAway, InvalidPayload, JobRunnerError
from flask_jobrunner.model.files import FileSource, NewFile, guess_type, is_content_type, name_fault
from flask_jobrunner.model.records import Job, NewJob
from flask_jobrunner.runtime import Runtime

from .shelf import CHUNK, Shelf

Files = Mapping[str, FileSource]


def add_with_files(
    runtime: Runtime, new: NewJob, files: Files | None, add: Callable[[NewJob], Job]
) -> Job:
    """`add` the job with these files; where that gives another job, or none, no copy is left.

    Raises `InvalidPayload` for what cannot be a file, `ConfigError` without a folder for files.
    """
    if not files:
        return add(new)
    shelf = Shelf(runtime.files_dir())
    try:
        job = add(replace(new, files=tuple(_keep(runtime, shelf, new.uuid, files))))
    except DatabaseAway:
        # The row may be there. Where it is not, `prune` removes what no row names.
        raise
    except Exception:
        shelf.drop(new.uuid)
        raise
    if job.uuid != new.uuid:
        shelf.drop(new.uuid)
    return job


def files_of(runtime: Runtime, job: Job) -> dict[str, FileSource]:
    """The files that a job was given, for another one. Raises `InvalidPayload` for one gone."""
    given = runtime.files.of(job.id, "input")
    shelf = Shelf(runtime.files_dir()) if given else None
    files: dict[str, FileSource] = {}
    for stored in given:
        path = shelf.find(job.uuid, stored.path) if shelf is not None else None
        if path is None or not path.is_file():
            raise InvalidPayload(
                f"The file {stored.file.name!r} that this job was given is not there any more. "
                "Start a new job with the file."
            )
        files[stored.file.name] = path
    return files


def check_files(runtime: Runtime, files: object) -> None:
    """Raise for what `add_with_files` could not store; read and written is nothing yet."""
    if files is None:
        return
    if not isinstance(files, Mapping):
        raise InvalidPayload(f"files must map names to files; it is a {type(files).__name__}.")
    if files:
        runtime.files_dir()
    most = runtime.config.files_max
    if len(files) > most:
        raise InvalidPayload(f"files holds {len(files):,}; JOBRUNNER_FILES_MAX allows {most:,}.")
    for name, source in files.items():
        if (fault := name_fault(name)) is not None:
            raise InvalidPayload(f"The name of a file {fault}; it is {name!r:.80}.")
        size = _size(name, source)
        if size is not None:
            check_size(runtime, name, size)


def check_size(runtime: Runtime, name: str, size: int) -> None:
    """Raise `InvalidPayload` for a file that is too large."""
    most = runtime.config.file_max_bytes
    if size > most:
        raise InvalidPayload(
            f"The file {name!r} is larger than the {words.size(most)} that "
            "JOBRUNNER_FILE_MAX_BYTES allows."
        )


def _keep(runtime: Runtime, shelf: Shelf, uuid: str, files: Files) -> Iterator[NewFile]:
    for name, source in files.items():
        try:
            part = shelf.begin(uuid, "input", 1)
            with opened(name, source) as reader:
                _copy(runtime, name, reader, part)
            told = shelf.measure(part)
            path = shelf.finish(part)
        except OSError as error:
            raise JobRunnerError(
                f"The file {name!r} could not be stored in {shelf.root}: {error.strerror or error}."
            ) from error
        yield NewFile(
            name=name,
            kind="input",
            path=path,
            size=told.size,
            sha256=told.sha256,
            content_type=_type(name, source),
            keep=runtime.config.file_retention,
        )


def _copy(runtime: Runtime, name: str, reader: Any, part: Path) -> None:
    size = 0
    with part.open("wb") as file:
        while data := reader.read(CHUNK):
            if not isinstance(data, bytes):
                raise InvalidPayload(
                    f"files[{name!r}] gives text: open it in binary mode, or encode it."
                )
            size += len(data)
            check_size(runtime, name, size)
            file.write(data)


@contextmanager
def opened(name: str, source: FileSource) -> Iterator[Any]:
    """Something to read the source from."""
    if isinstance(source, (str, os.PathLike)):
        with _open(name, Path(source)) as file:
            yield file
    elif isinstance(source, (bytes, bytearray, memoryview)):
        yield _Bytes(source)
    else:
        yield source


class _Bytes:
    """Bytes in memory, read without a second copy of all of them."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._left = memoryview(data).cast("B")

    def read(self, size: int) -> bytes:
        """The next ones."""
        piece, self._left = self._left[:size], self._left[size:]
        return bytes(piece)


def _open(name: str, path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise _unreadable(name, path, error.strerror or "") from error


def _size(name: str, source: object) -> int | None:
    """The size, where that can be known without reading."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return memoryview(source).nbytes
    if isinstance(source, (str, os.PathLike)):
        return _size_on_disk(name, Path(source))
    if not callable(getattr(source, "read", None)):
        raise InvalidPayload(
            f"files[{name!r}] must be a path, bytes or an object with read(); it is a "
            f"{type(source).__name__}."
        )
    return None


def _size_on_disk(name: str, path: Path) -> int:
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(name, path, getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise _unreadable(name, path, "It is not a file")
    if not os.access(path, os.R_OK):
        raise _unreadable(name, path, "Permission denied")
    return found.st_size


def _unreadable(name: str, path: Path, why: str) -> InvalidPayload:
    return InvalidPayload(f"files[{name!r}]: {path} cannot be read: {why}.")


def _type(name: str, source: object) -> str:
    # An upload says what its browser took it for.
    told = getattr(source, "mimetype", None)
    return str(told) if is_content_type(told) else guess_type(name)
