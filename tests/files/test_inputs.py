"""`files=`: copied before the row is committed, refused before anything is stored."""

from __future__ import annotations

import hashlib
import io
import stat
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from werkzeug.datastructures import FileStorage

from flask_jobrunner import ConfigError, InvalidPayload, JobRunnerError
from flask_jobrunner.caller.enqueue import enqueue
from flask_jobrunner.files.shelf import Shelf
from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.records import Job
from flask_jobrunner.runtime import Runtime
from tests.helpers.stores import everything
from tests.host_app import Entry, db

TYPE = "host.nothing"


def bytes_of(runtime: Runtime, job: Job) -> dict[str, bytes]:
    """What the rows of a job lead to."""
    shelf = Shelf(runtime.files_dir())
    found = {}
    for stored in runtime.files.of(job.id, "input"):
        path = shelf.find(job.uuid, stored.path)
        assert path is not None
        found[stored.file.name] = path.read_bytes()
    return found


def on_disk(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_path_bytes_and_what_can_be_read_are_copied(
    runtime: Runtime, root: Path, tmp_path: Path
) -> None:
    source = tmp_path / "orders.csv"
    source.write_bytes(b"a,b\n")
    upload = FileStorage(io.BytesIO(b"upload"), "x.bin", content_type="application/pdf")

    job = enqueue(runtime, TYPE, files={"orders.csv": source, "empty": b"", "a b.ü": upload}).job
    source.write_bytes(b"changed afterwards")

    assert bytes_of(runtime, job) == {"orders.csv": b"a,b\n", "empty": b"", "a b.ü": b"upload"}
    files = {one.file.name: one.file for one in runtime.files.of(job.id)}
    told = files["orders.csv"]
    assert (told.kind, told.size, told.attempt, told.expired_at) == ("input", 4, 1, None)
    assert told.sha256 == hashlib.sha256(b"a,b\n").hexdigest()
    assert told.content_type == "text/csv"
    assert files["a b.ü"].content_type == "application/pdf"
    assert files["empty"].content_type == "application/octet-stream"
    assert told.expires_at is not None
    assert (told.expires_at - told.created_at).total_seconds() == 3600
    assert not [path for path in on_disk(root) if path.suffix]


def test_published_bytes_are_read_only_and_as_open_as_the_folder(
    runtime: Runtime, root: Path
) -> None:
    root.mkdir()
    root.chmod(0o2770)
    enqueue(runtime, TYPE, files={"a": b"1"})

    (file,) = on_disk(root)
    assert stat.S_IMODE(file.stat().st_mode) == 0o440
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o2770


class Unreadable:
    def read(self, size: int) -> bytes:
        raise OSError(5, "Input/output error")


class Endless:
    def read(self, size: int) -> bytes:
        return b"x" * 100


class Text:
    def read(self, size: int) -> str:
        return "text"


BAD: list[tuple[Any, str]] = [
    (["a"], "must map names to files"),
    ({"a/b": b""}, "no slashes"),
    ({"..": b""}, "must be a name"),
    ({"": b""}, "must be a name"),
    ({" a": b""}, "without blanks"),
    ({"a\0": b""}, "control characters"),
    ({"a\udce9": b""}, "control characters"),
    ({"x" * 192: b""}, "at most 191 bytes"),
    ({7: b""}, "must be a string"),
    ({"a": 7}, "a path, bytes or an object with read"),
    ({"a": None}, "a path, bytes or an object with read"),
    ({"a": "/nowhere/at/all"}, "cannot be read: No such file"),
    ({"a": "/"}, "It is not a file"),
    ({"a": "nul\0"}, "cannot be read"),
    ({"a": b"x" * 1001}, "JOBRUNNER_FILE_MAX_BYTES"),
    ({"good": b"1", "a": Endless()}, "JOBRUNNER_FILE_MAX_BYTES"),
    ({"good": b"1", "a": Text()}, "binary mode"),
    ({str(number): b"" for number in range(4)}, "JOBRUNNER_FILES_MAX allows 3"),
]


@pytest.mark.parametrize(("files", "message"), BAD)
def test_bad_input_is_refused_and_nothing_is_stored(
    runtime: Runtime, root: Path, files: Any, message: str
) -> None:
    before = everything(runtime)

    with pytest.raises(InvalidPayload, match=message):
        enqueue(runtime, TYPE, files=files)

    assert everything(runtime) | {"jobrun_meta": []} == before | {"jobrun_meta": []}
    assert on_disk(root) == []


def test_a_source_that_breaks_leaves_nothing(runtime: Runtime, root: Path) -> None:
    with pytest.raises(JobRunnerError, match="could not be stored"):
        enqueue(runtime, TYPE, files={"good": b"1", "bad": Unreadable()})

    assert on_disk(root) == []
    assert everything(runtime)["jobrun_jobs"] == []


def test_without_a_folder_files_are_refused(runtime: Runtime) -> None:
    object.__setattr__(runtime.config, "files_dir", None)

    with pytest.raises(ConfigError, match="JOBRUNNER_FILES_DIR"):
        enqueue(runtime, TYPE, files={"a": b"1"})
    assert enqueue(runtime, TYPE, files={}).status == "queued"


def test_where_the_lock_is_held_no_copy_is_left(runtime: Runtime, root: Path) -> None:
    first = enqueue(runtime, TYPE, lock_key="k", files={"a": b"1"})
    second = enqueue(runtime, TYPE, lock_key="k", files={"a": b"2"})

    assert (second.status, second.job.uuid) == ("already_active", first.job.uuid)
    assert bytes_of(runtime, first.job) == {"a": b"1"}
    assert len(on_disk(root)) == 1


def test_files_join_the_hosts_transaction(runtime: Runtime, root: Path) -> None:
    db.create_all()
    db.session.add(Entry(name="with"))
    db.session.flush()
    kept = enqueue(runtime, TYPE, files={"a": b"1"}, session=db.session).job
    db.session.commit()
    undone = enqueue(runtime, TYPE, files={"a": b"2"}, session=db.session).job
    db.session.rollback()

    assert bytes_of(runtime, kept) == {"a": b"1"}
    assert runtime.jobs.get(undone.uuid) is None
    files = runtime.database.tables.files
    assert len(runtime.database.rows(sa.select(files.c.id))) == 1


@pytest.mark.parametrize("answer", ["lost", "refused"])
def test_copies_stay_where_the_row_may_have_been_committed(
    runtime: Runtime, root: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    error = DatabaseAway("gone") if answer == "lost" else ValueError("no")

    def broken(_new: object) -> None:
        raise error

    monkeypatch.setattr(runtime.jobs, "add", broken)
    with pytest.raises(type(error)):
        enqueue(runtime, TYPE, files={"a": b"1"})

    assert len(on_disk(root)) == (1 if answer == "lost" else 0)
