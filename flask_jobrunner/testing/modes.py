"""JOBRUNNER_MODE for one test, and what was started in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, overload

from flask import Flask

from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.model.recorded import RecordedJob
from flask_jobrunner.runtime import EXTENSION, Runtime


class RecordedJobs(Sequence[RecordedJob]):
    """What was started, enqueued and requeued so far, in order: it grows as the test goes on."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def of(self, job_type: str) -> list[RecordedJob]:
        """Those of one job type."""
        return [one for one in self._runtime.recorded if one.job_type == job_type]

    def only(self, job_type: str | None = None) -> RecordedJob:
        """The one that there is, of this type if one is given.

        Raises `AssertionError` with what there is, where that is not exactly one.
        """
        __tracebackhide__ = True
        found = list(self) if job_type is None else self.of(job_type)
        if len(found) != 1:
            wanted = "job" if job_type is None else f"job of type {job_type}"
            raise AssertionError(f"Not one {wanted}, but {len(found)}, was recorded among: {self}.")
        return found[0]

    def clear(self) -> None:
        """Forget what was recorded, as before the part of a test that matters."""
        self._runtime.recorded.clear()

    @overload
    def __getitem__(self, index: int) -> RecordedJob: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordedJob]: ...
    def __getitem__(self, index: int | slice) -> RecordedJob | list[RecordedJob]:
        return self._runtime.recorded[index]

    def __len__(self) -> int:
        return len(self._runtime.recorded)

    def __repr__(self) -> str:
        calls = [f"{one.kind} {one.job_type} {one.payload}" for one in self._runtime.recorded]
        return f"[{', '.join(calls)}]"


@contextmanager
def job_mode(app: Flask, mode: Literal["record", "inline"]) -> Iterator[RecordedJobs]:
    """Give `app` this JOBRUNNER_MODE inside the block, with nothing recorded yet.

    For test runners other than pytest; the fixtures are made of it. Raises `ConfigError` where
    jobs are not set up on the application.
    """
    runtime = app.extensions.get(EXTENSION)
    if runtime is None:
        raise ConfigError("JobRunner is not set up on this application: call jobs.init_app(app).")
    with runtime.in_mode(mode):
        runtime.recorded.clear()
        try:
            yield RecordedJobs(runtime)
        finally:
            runtime.recorded.clear()
