"""`ctx.file()` and `ctx.artifact()`: what a job was given, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

from flask_jobrunner.files.shelf import Measure, Shelf, discard, is_file
from flask_jobrunner.model import words
from flask_jobrunner.model.errors import DatabaseAway, OwnershipLost
from flask_jobrunner.model.files import NewFile, StoredFile, guess_type, is_content_type, name_fault
from flask_jobrunner.model.records import Claim
from flask_jobrunner.runtime import Runtime

from .steady import Owner


class Files(Protocol):
    """What the context asks of a job's files."""

    def path(self, name: str) -> Path:
        """Where an input is."""

    def artifact(
        self, name: str, content_type: str | None, encoding: str | None
    ) -> AbstractContextManager[IO[Any]]:
        """A file to write to, which is published when the block ends well."""


def check_artifact(name: str, content_type: str | None) -> None:
    """Raise `ValueError` for what no artifact can be called."""
    if (fault := name_fault(name)) is not None:
        raise ValueError(f"The name of an artifact {fault}; it is {name!r:.80}.")
    if content_type is not None and not is_content_type(content_type):
        raise ValueError(f"content_type must be like 'text/csv'; it is {content_type!r:.80}.")


def no_input(name: str, there: list[str]) -> FileNotFoundError:
    """What is raised where the job was not given such a file."""
    given = f"it was given {', '.join(map(repr, there))}" if there else "it was given none"
    return FileNotFoundError(f"This job has no input {name!r:.80}; {given}.")


class JobFiles:
    """The files of a claimed job, as its own process uses them."""

    def __init__(
        self,
        runtime: Runtime,
        claim: Claim,
        *,
        owner: Owner,
        silence: Callable[[], AbstractContextManager[object]],
        said: Callable[[str], object],
    ) -> None:
        self._runtime, self._config = runtime, runtime.config
        self._fence, self._uuid = claim.fence, claim.owned.job.uuid
        self._owner, self._silence, self._said = owner, silence, said

    def path(self, name: str) -> Path:
        """See `JobContext.file`."""
        found = self._inputs.get(name)
        if found is None:
            raise no_input(name, list(self._inputs))
        if found.file.expired_at is not None:
            raise FileNotFoundError(
                f"The input {name!r} was removed on {found.file.expired_at:%d %b %Y}, when its "
                "time was over. Start a new job with the file."
            )
        path = self._shelf.find(self._uuid, found.path)
        if path is None or not is_file(path):
            raise FileNotFoundError(
                f"The input {name!r} is not in {self._shelf.root}. Is JOBRUNNER_FILES_DIR the same "
                "folder where jobs are started and where they run?"
            )
        return path

    @contextmanager
    def artifact(
        self, name: str, content_type: str | None, encoding: str | None
    ) -> Iterator[IO[Any]]:
        """See `JobContext.artifact`."""
        check_artifact(name, content_type)
        self._check_room(name)
        part = self._shelf.begin(self._uuid, "output", self._fence.attempt)
        try:
            mode, newline = ("w+b", None) if encoding is None else ("w+", "")
            with part.open(mode, encoding=encoding, newline=newline) as file:
                yield file
            told = self._shelf.measure(part)
            self._check_size(name, told)
            self._publish(name, content_type or guess_type(name), told, self._shelf.finish(part))
        finally:
            discard(part)

    def _publish(self, name: str, content_type: str, told: Measure, path: str) -> None:
        new = NewFile(
            name=name,
            kind="output",
            path=path,
            size=told.size,
            sha256=told.sha256,
            content_type=content_type,
            keep=self._config.file_retention,
        )
        try:
            with self._silence():
                done, replaced = self._runtime.files.publish(self._fence, new)
        except DatabaseAway:
            raise  # the row may be there; where it is not, `prune` removes what no row names
        except BaseException:
            self._shelf.remove(self._uuid, path)
            raise
        if not done:
            self._shelf.remove(self._uuid, path)
            raise OwnershipLost(f"{name!r} was not published: the job belongs to another process.")
        # It is published, whatever becomes of what it replaced: `prune` removes that as well.
        with suppress(OSError):
            self._shelf.remove(self._uuid, replaced)
        self._said(f"Published {name}, {words.size(told.size)}.")

    def _check_room(self, name: str) -> None:
        self._check_process()
        with self._silence():
            there = self._runtime.files.of(self._fence.job_id, "output")
        mine = {one.file.name for one in there if one.file.attempt == self._fence.attempt}
        most = self._config.files_max
        if name not in mine and len(mine) >= most:
            raise ValueError(f"{len(mine):,} artifacts are as many as JOBRUNNER_FILES_MAX allows.")

    def _check_size(self, name: str, told: Measure) -> None:
        most = self._config.file_max_bytes
        if told.size > most:
            raise ValueError(
                f"The artifact {name!r} has {words.size(told.size)}, which is more than the "
                f"{words.size(most)} that JOBRUNNER_FILE_MAX_BYTES allows."
            )

    def _check_process(self) -> None:
        # A fork shares the connection's socket: two would talk on one line.
        if not self._owner.is_here():
            raise RuntimeError(
                "Only the job's own process asks for files: ask before the fork, or publish what "
                "the forked process made afterwards."
            )

    @cached_property
    def _inputs(self) -> dict[str, StoredFile]:
        # They do not change, nor go, while the job is active.
        self._check_process()
        with self._silence():
            found = self._runtime.files.of(self._fence.job_id, "input")
        return {stored.file.name: stored for stored in found}

    @cached_property
    def _shelf(self) -> Shelf:
        return Shelf(self._runtime.files_dir())
