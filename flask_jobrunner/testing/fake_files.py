"""Files for a `FakeContext`: inputs from a test, artifacts kept in memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from flask_jobrunner.child.job_files import check_artifact, no_input
from flask_jobrunner.files.inputs import Files, opened
from flask_jobrunner.model.files import name_fault


class FakeFiles:
    """Keeps its files in a temporary folder, as long as it is there itself."""

    def __init__(self, files: Files | None) -> None:
        self._given = dict(files or {})
        self._names = {name: f"input-{number}" for number, name in enumerate(self._given)}
        self._folder: Path | None = None
        self.artifacts: dict[str, bytes] = {}

    def path(self, name: str) -> Path:
        """Where an input is."""
        if name not in self._given:
            raise no_input(name, list(self._given))
        if (fault := name_fault(name)) is not None:
            raise ValueError(f"The name of a file {fault}; it is {name!r:.80}.")
        path = self._place() / self._names[name]
        if not path.exists():
            with opened(name, self._given[name]) as reader, path.open("wb") as file:
                shutil.copyfileobj(reader, file)
        return path

    @contextmanager
    def artifact(
        self, name: str, content_type: str | None, encoding: str | None
    ) -> Iterator[IO[Any]]:
        """A file to write to; its bytes are in `artifacts` when the block has ended well."""
        check_artifact(name, content_type)
        path = self._place() / "output"
        mode, newline = ("w+b", None) if encoding is None else ("w+", "")
        with path.open(mode, encoding=encoding, newline=newline) as file:
            yield file
        self.artifacts[name] = path.read_bytes()

    def _place(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="jobrunner-fake-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder
