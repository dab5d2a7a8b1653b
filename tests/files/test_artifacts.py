"""`ctx.file` and `ctx.artifact`, with the real context, on every database."""

from __future__ import annotations

import csv
import hashlib
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner import JobContext, OwnershipLost
from flask_jobrunner.caller.inline import run_inline
from flask_jobrunner.caller.inspect import status
from flask_jobrunner.caller.requeue import requeue
from flask_jobrunner.files.shelf import Shelf
from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.files import NewFile
from flask_jobrunner.model.records import Fence
from flask_jobrunner.model.results import InlineResult
from flask_jobrunner.repositories.files import FileRepository
from flask_jobrunner.runtime import Runtime
from tests.helpers.stores import change

Handle = Callable[[JobContext], Any]
Run = Callable[..., InlineResult]


@pytest.fixture
def run(runtime: Runtime) -> Run:
    """Run a function as a job, in this process."""

    numbers = itertools.count()

    def inline(handle: Handle, **options: Any) -> InlineResult:
        job_type = f"test.files{next(numbers)}"
        plain = runtime.handlers.find("host.nothing")
        runtime.handlers.add(replace(plain, job_type=job_type, function=handle))
        return run_inline(runtime, job_type, **options)

    return inline


def bytes_of(runtime: Runtime, uuid: str) -> dict[str, bytes]:
    """The outputs of a job, by attempt and name."""
    job = runtime.jobs.get(uuid)
    assert job is not None
    shelf, found = Shelf(runtime.files_dir()), {}
    for stored in runtime.files.of(job.id, "output"):
        path = shelf.find(uuid, stored.path)
        assert path is not None
        found[f"{stored.file.attempt}/{stored.file.name}"] = path.read_bytes()
    return found


def on_disk(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_handler_reads_what_was_given_and_leaves_what_it_made(
    runtime: Runtime, run: Run, root: Path
) -> None:
    def handle(ctx: JobContext) -> str:
        text = ctx.file("in.txt").read_text()
        with ctx.artifact("out.csv", encoding="utf-8") as file:
            csv.writer(file).writerow([text, "ä"])
        with ctx.artifact("raw", "image/png") as file:
            file.write(b"\x89PNG")
        return text

    result = run(handle, files={"in.txt": b"given"})

    assert (result.status, result.result) == ("succeeded", "given")
    assert result.job is not None
    data = "given,ä\r\n".encode()
    assert bytes_of(runtime, result.job.uuid) == {"1/out.csv": data, "1/raw": b"\x89PNG"}
    first, second = status(runtime, result.job.uuid).artifacts
    assert (first.name, first.kind, first.size) == ("out.csv", "output", len(data))
    assert first.sha256 == hashlib.sha256(data).hexdigest()
    assert (first.content_type, second.content_type) == ("text/csv", "image/png")
    assert first.expires_at is not None
    assert len(on_disk(root)) == 3
    told = [line.message for line in status(runtime, result.job.uuid).logs]
    assert "Published out.csv, 10 B." in told


def test_what_is_published_once_is_replaced_whole(runtime: Runtime, run: Run, root: Path) -> None:
    def handle(ctx: JobContext) -> None:
        for text in (b"first", b"second"):
            with ctx.artifact("a") as file:
                file.write(text)

    job = run(handle).job
    assert job is not None
    assert bytes_of(runtime, job.uuid) == {"1/a": b"second"}
    assert len(on_disk(root)) == 1


def test_a_block_that_raises_publishes_nothing(runtime: Runtime, run: Run, root: Path) -> None:
    def handle(ctx: JobContext) -> None:
        with ctx.artifact("kept") as file:
            file.write(b"kept")
        with ctx.artifact("broken") as file:
            file.write(b"half")
            raise LookupError("in the middle")

    result = run(handle)
    assert (result.status, result.error and result.error["class"]) == ("failed", "LookupError")
    assert result.job is not None
    assert bytes_of(runtime, result.job.uuid) == {"1/kept": b"kept"}
    assert len(on_disk(root)) == 1


def test_each_attempt_has_its_own_and_reads_the_same_input(runtime: Runtime, run: Run) -> None:
    def handle(ctx: JobContext) -> None:
        with ctx.artifact("a") as file:
            file.write(ctx.file("in").read_bytes() + str(ctx.attempt).encode())
        if ctx.attempt == 1:
            raise LookupError("once more")

    job = run(handle, files={"in": b"x"}).job
    assert job is not None
    with runtime.in_mode("inline"):
        requeue(runtime, job.uuid)

    assert bytes_of(runtime, job.uuid) == {"1/a": b"x1", "2/a": b"x2"}
    newest = runtime.files.find(job.id, "output", "a")
    assert newest is not None
    assert newest.file.attempt == 2


@pytest.mark.parametrize(
    ("name", "content_type", "message"),
    [
        ("a/b", None, "no slashes"),
        ("..", None, "must be a name"),
        ("a", "text", "must be like 'text/csv'"),
        ("a", "text/html\r\nX: y", "must be like"),
    ],
)
def test_names_and_types_are_checked_before_anything_is_written(
    runtime: Runtime, run: Run, root: Path, name: str, content_type: str | None, message: str
) -> None:
    def handle(ctx: JobContext) -> None:
        with ctx.artifact(name, content_type) as file:
            file.write(b"x")

    result = run(handle)
    assert result.message is not None
    assert message in result.message
    assert on_disk(root) == []


def test_too_large_and_too_many(runtime: Runtime, run: Run, root: Path) -> None:
    def large(ctx: JobContext) -> None:
        with ctx.artifact("a") as file:
            file.write(b"x" * 1001)

    def many(ctx: JobContext) -> None:
        for number in (1, 2, 3, 3, 4):
            with ctx.artifact(str(number)) as file:
                file.write(b"x")

    assert "JOBRUNNER_FILE_MAX_BYTES" in (run(large).message or "")
    assert on_disk(root) == []
    assert "JOBRUNNER_FILES_MAX" in (run(many).message or "")
    assert len(on_disk(root)) == 3


def test_an_input_that_is_not_there_is_said_by_name(run: Run) -> None:
    missing = run(lambda ctx: ctx.file("other"), files={"in": b""})
    assert missing.error is not None
    assert missing.error["class"] == "FileNotFoundError"
    assert "no input 'other'; it was given 'in'" in missing.error["message"]
    assert "it was given none" in (run(lambda ctx: ctx.file("x")).message or "")


def test_an_input_that_another_folder_holds_is_explained(
    run: Run, runtime: Runtime, root: Path
) -> None:
    def handle(ctx: JobContext) -> None:
        for path in on_disk(root):
            path.unlink()
        ctx.file("in")

    assert "JOBRUNNER_FILES_DIR" in (run(handle, files={"in": b""}).message or "")


def test_who_has_lost_the_job_publishes_nothing(runtime: Runtime, run: Run, root: Path) -> None:
    raised: list[BaseException] = []

    def handle(ctx: JobContext) -> None:
        try:
            with ctx.artifact("a") as file:
                file.write(b"x")
                change(runtime, ctx.job_id, worker_token="of another")
        except OwnershipLost as error:
            raised.append(error)

    with pytest.raises(OwnershipLost):
        run(handle)
    assert len(raised) == 1
    assert on_disk(root) == []
    assert runtime.files.of(1) == []


def test_bytes_stay_where_the_answer_was_lost(
    runtime: Runtime, run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = FileRepository.publish

    def committed_unheard(self: FileRepository, fence: Fence, new: NewFile) -> None:
        publish(self, fence, new)
        raise DatabaseAway("gone")

    def handle(ctx: JobContext) -> None:
        with ctx.artifact("a") as file:
            file.write(b"x")

    monkeypatch.setattr(FileRepository, "publish", committed_unheard)
    job = run(handle).job
    assert job is not None
    assert bytes_of(runtime, job.uuid) == {"1/a": b"x"}


def test_a_fork_of_the_job_is_told_what_to_do(run: Run) -> None:
    def handle(ctx: JobContext) -> int:
        child = os.fork()
        if child == 0:
            try:
                ctx.file("in")
            except RuntimeError:
                os._exit(3)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert run(handle, files={"in": b""}).result == 3
