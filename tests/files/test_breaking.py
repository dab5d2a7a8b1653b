"""What programs and disks do to files: nothing half is published, nothing of somebody else's."""

from __future__ import annotations

import logging
import os
import resource
import threading
from pathlib import Path

import pytest

from flask_jobrunner import InvalidPayload, JobContext
from flask_jobrunner.caller.enqueue import enqueue
from flask_jobrunner.files import shelf as shelving
from flask_jobrunner.files.shelf import Shelf
from flask_jobrunner.recovery.retention import Ages, prune
from flask_jobrunner.runtime import Runtime
from tests.files.test_artifacts import Run, bytes_of, on_disk, run

__all__ = ["run"]

NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.mark.parametrize("instead", ["link", "folder", "pipe"])
def test_what_a_program_put_in_the_place_of_its_output_is_not_published(
    runtime: Runtime, run: Run, root: Path, tmp_path: Path, instead: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the system")

    def handle(ctx: JobContext) -> None:
        with ctx.artifact("a") as file:
            path = Path(file.name)
            path.unlink()
            if instead == "link":
                path.symlink_to(secret)
            elif instead == "folder":
                (path / "in it").mkdir(parents=True)
            else:
                os.mkfifo(path)

    result = run(handle)

    assert result.status == "failed"
    assert "no file" in (result.message or "")
    assert result.job is not None
    assert bytes_of(runtime, result.job.uuid) == {}
    assert [path for path in root.rglob("*") if not path.is_dir()] == []
    assert secret.read_text() == "of the system"


def test_a_file_that_a_program_renamed_into_its_place_is_published(
    runtime: Runtime, run: Run, root: Path
) -> None:
    def handle(ctx: JobContext) -> None:
        with ctx.artifact("a") as file:
            beside = Path(f"{file.name}.tmp")
            beside.write_bytes(b"whole")
            beside.replace(file.name)

    job = run(handle).job
    assert job is not None
    assert bytes_of(runtime, job.uuid) == {"1/a": b"whole"}
    assert len(on_disk(root)) == 1


def test_a_full_disk_leaves_nothing_half(runtime: Runtime, run: Run, root: Path) -> None:
    def handle(ctx: JobContext) -> None:
        with ctx.artifact("small") as file:
            file.write(b"fits")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        # The same as a full disk for whoever writes: so much, and no more.
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 20, before[1]))
        try:
            with ctx.artifact("large") as file:
                file.seek(200 << 20)
                file.write(b"x")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    result = run(handle)

    assert result.error is not None
    assert result.error["class"] == "OSError"
    assert result.job is not None
    assert bytes_of(runtime, result.job.uuid) == {"1/small": b"fits"}
    assert len(on_disk(root)) == 1


def test_a_folder_that_goes_while_a_file_begins_is_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier attempt's last file is removed in the moment in which the next one begins."""
    shelf, gone = Shelf(root), list[Path]()
    make = Shelf._make_folder

    def make_and_lose(self: Shelf, uuid: str) -> Path:
        folder = make(self, uuid)
        if not gone:
            folder.rmdir()
            gone.append(folder)
        return folder

    monkeypatch.setattr(Shelf, "_make_folder", make_and_lose)
    assert shelf.begin(NOBODY, "output", 2).is_file()
    assert len(gone) == 1


def test_attempts_that_begin_and_are_cleared_at_once_do_not_meet(root: Path) -> None:
    shelf, failed = Shelf(root), list[BaseException]()

    def begin_and_drop(attempt: int) -> None:
        try:
            for _ in range(100):
                shelf.drop_entries(NOBODY, [shelf.begin(NOBODY, "output", attempt)])
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=begin_and_drop, args=(n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert not (root / NOBODY[-2:] / NOBODY).exists()


def test_what_was_published_stays_so_when_what_it_replaced_cannot_be_removed(
    runtime: Runtime, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handle(ctx: JobContext) -> None:
        with ctx.artifact("a") as file:
            file.write(b"first")
        monkeypatch.setattr(Shelf, "remove", refuse)
        with ctx.artifact("a") as file:
            file.write(b"second")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    result = run(handle)

    assert result.status == "succeeded"
    assert result.job is not None
    assert bytes_of(runtime, result.job.uuid) == {"1/a": b"second"}


def test_folders_that_programs_left_are_removed_and_one_that_stays_stops_nobody(
    runtime: Runtime, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf(root)
    uuids = [f"{NOBODY[:-2]}{end}" for end in ("01", "02", "03")]
    for uuid in uuids:
        part = shelf.begin(uuid, "output", 1)
        (part.parent / "o1-work").mkdir()
        (part.parent / "o1-work" / "deep").write_text("x")
        os.utime(part, (1, 1))
        os.utime(part.parent / "o1-work", (1, 1))
    discard = shelving.discard

    def refuse_one(entry: Path) -> None:
        if uuids[1] in str(entry):
            raise PermissionError(13, "Permission denied", str(entry))
        discard(entry)

    monkeypatch.setattr(shelving, "discard", refuse_one)
    with caplog.at_level(logging.ERROR):
        result = prune(runtime, Ages(), pause=lambda _: None)

    assert result.leftovers == 4
    assert uuids[1] in caplog.text
    assert {path.parent.name for path in on_disk(root)} == {uuids[1], "o1-work"}


@pytest.mark.parametrize("name", ["in\u202egpj.exe", "a\u2066b", "a\u2028b", "\u200f.txt"])
def test_names_that_show_something_else_than_they_are(
    runtime: Runtime, root: Path, name: str
) -> None:
    with pytest.raises(InvalidPayload, match="control characters"):
        enqueue(runtime, "host.nothing", files={name: b""})
    assert on_disk(root) == []


def test_names_that_differ_a_little_are_two_files(runtime: Runtime, run: Run) -> None:
    names = ("A", "a", "ä")

    def handle(ctx: JobContext) -> None:
        for name in names:
            with ctx.artifact(name) as file:
                file.write(name.encode())

    job = run(handle).job
    assert job is not None
    assert bytes_of(runtime, job.uuid) == {f"1/{name}": name.encode() for name in names}
    for name in names:
        found = runtime.files.find(job.id, "output", name)
        assert found is not None
        assert found.file.name == name
