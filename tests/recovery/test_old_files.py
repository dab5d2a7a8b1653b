"""Files go when their time is over and their rows stay; what nobody finished goes as well."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.caller.inspect import get
from flask_jobrunner.files.leftovers import UNNAMED_FOR
from flask_jobrunner.files.shelf import PART, Shelf
from flask_jobrunner.model.files import NewFile
from flask_jobrunner.model.records import Claim
from flask_jobrunner.recovery.retention import Ages, PruneResult, dry_run, prune, wanted_ages
from flask_jobrunner.runtime import Runtime
from tests.helpers.stores import DEAD, ELSEWHERE, change, end_as, queue, start

DAY = 86400.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def runtime_config(root: Path) -> dict[str, Any]:
    return {"JOBRUNNER_FILES_DIR": str(root)}


@pytest.fixture
def shelf(runtime: Runtime) -> Shelf:
    return Shelf(runtime.files_dir())


def publish(runtime: Runtime, won: Claim, name: str = "a", *, keep: float | None = None) -> str:
    """An artifact of a claimed job, made as its process does; where it is."""
    shelf, uuid = Shelf(runtime.files_dir()), won.owned.job.uuid
    part = shelf.begin(uuid, "output", won.fence.attempt)
    part.write_bytes(b"data")
    told, path = shelf.measure(part), shelf.finish(part)
    new = NewFile(
        name=name,
        kind="output",
        path=path,
        size=told.size,
        content_type="text/plain",
        sha256=told.sha256,
        keep=keep,
    )
    assert runtime.files.publish(won.fence, new) == (True, None)
    return path


def aged(runtime: Runtime, *, days: float) -> None:
    """Let all files have been made, and be over, so much earlier."""
    files, by = runtime.database.tables.files, int(days * DAY * 1_000_000)
    earlier = sa.update(files).values(
        created_at=files.c.created_at - by, expires_at=files.c.expires_at - by
    )
    runtime.database.run(lambda connection: connection.execute(earlier).rowcount)


def on_disk(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def pruned(runtime: Runtime, **ages: float) -> PruneResult:
    return prune(runtime, Ages(**ages), pause=lambda _: None)


def long_ago(*paths: Path) -> None:
    then = time.time() - UNNAMED_FOR - 60
    for path in paths:
        os.utime(path, (then, then))


def test_a_file_past_its_expiry_leaves_a_row_that_says_so(runtime: Runtime, root: Path) -> None:
    won = start(runtime)
    publish(runtime, won, "old", keep=DAY)
    young = publish(runtime, won, "young", keep=9 * DAY)
    kept = publish(runtime, won, "kept")
    end_as(runtime, won, "failed")
    aged(runtime, days=3)
    assert dry_run(runtime, Ages()).files == 1

    assert pruned(runtime).files == 1

    assert on_disk(root) == {young, kept}
    rows = {stored.file.name: stored for stored in runtime.files.of(won.fence.job_id)}
    assert rows["old"].path is None
    assert rows["old"].file.expired_at is not None
    assert (rows["old"].file.size, len(rows["old"].file.sha256)) == (4, 64)
    assert rows["young"].file.expired_at is None
    assert pruned(runtime).files == 0


def test_an_age_that_is_given_takes_those_without_expiry_too(runtime: Runtime, root: Path) -> None:
    won = start(runtime)
    publish(runtime, won)
    end_as(runtime, won, "succeeded")
    aged(runtime, days=3)

    assert pruned(runtime, files=5 * DAY).files == 0
    assert pruned(runtime, files=2 * DAY).files == 1
    assert on_disk(root) == set()
    assert list(root.glob("*/*")) == []


@pytest.mark.parametrize("status", ["running", "lost"])
def test_files_of_active_and_lost_jobs_stay(runtime: Runtime, root: Path, status: str) -> None:
    won = start(runtime, worker=ELSEWHERE if status == "lost" else None)
    path = publish(runtime, won, keep=1.0)
    aged(runtime, days=3)
    if status == "lost":
        end_as(runtime, won, "lost")
    long_ago(root / path)

    result = pruned(runtime, files=DAY)
    assert (result.files, result.leftovers) == (0, 0)
    assert on_disk(root) == {path}


def test_a_job_that_has_just_been_requeued_keeps_its_files(runtime: Runtime, root: Path) -> None:
    won = start(runtime)
    path = publish(runtime, won, keep=1.0)
    end_as(runtime, won, "failed")
    aged(runtime, days=3)
    (old,) = runtime.old_files.find(None)
    change(runtime, won.fence.job_id, status="queued", finished_at=None)

    assert not runtime.old_files.bury(old)
    assert on_disk(root) == {path}


def test_a_removed_job_takes_its_files_along(runtime: Runtime, root: Path) -> None:
    won = start(runtime)
    publish(runtime, won)
    end_as(runtime, won, "succeeded")
    day = runtime.database.clock() - int(2 * DAY * 1_000_000)
    change(runtime, won.fence.job_id, finished_at=day)

    assert pruned(runtime, jobs=DAY).jobs == 1
    assert on_disk(root) == set()


def test_what_no_row_names_goes_after_a_day(runtime: Runtime, root: Path, shelf: Shelf) -> None:
    ended, running = start(runtime), start(runtime)
    named = publish(runtime, ended)
    end_as(runtime, ended, "failed")
    nobody = "01890000-0000-7000-8000-000000000000"
    old = [shelf.begin(uuid, "output", 1) for uuid in (ended.owned.job.uuid, nobody)]
    spared = [shelf.begin(running.owned.job.uuid, "output", 1)]
    long_ago(*old, *spared, root / named)
    spared.append(shelf.begin(nobody, "input", 1))
    assert dry_run(runtime, Ages()).leftovers == 2

    result = pruned(runtime)

    assert (result.leftovers, result.files) == (2, 0)
    assert on_disk(root) == {named, *(shelf.name_of(path) for path in spared)}


def test_one_part_of_the_folder_is_enough_at_a_time(
    runtime: Runtime, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = shelf.begin("01890000-0000-7000-8000-000000000000", "output", 1)
    long_ago(left)
    for shard, found in (("ff", 0), ("00", 1)):
        monkeypatch.setattr("random.choice", lambda _, shard=shard: shard)
        assert prune(runtime, Ages(), seconds=60.0).leftovers == found


def test_a_killed_attempt_leaves_only_what_it_published(
    runtime: Runtime, root: Path, shelf: Shelf
) -> None:
    won = start(runtime, worker=DEAD)
    uuid = won.owned.job.uuid
    published = publish(runtime, won)
    shelf.begin(uuid, "output", 1).write_bytes(b"half")
    renamed = shelf.finish(shelf.begin(uuid, "output", 1))
    of_others = [shelf.begin(uuid, "output", 2), shelf.begin(uuid, "input", 1)]
    assert renamed in on_disk(root)

    job = get(runtime, uuid)

    assert job is not None
    assert job.status == "interrupted"
    assert on_disk(root) == {published, *(shelf.name_of(path) for path in of_others)}


def test_an_owner_that_cannot_be_seen_may_still_be_writing(
    runtime: Runtime, root: Path, shelf: Shelf
) -> None:
    won = start(runtime, worker=ELSEWHERE)
    part = shelf.begin(won.owned.job.uuid, "output", 1)
    end_as(runtime, won, "lost")

    assert on_disk(root) == {shelf.name_of(part)}
    assert part.suffix == PART


def test_a_row_that_was_written_by_hand_leads_nowhere_else(
    runtime: Runtime, shelf: Shelf, tmp_path: Path
) -> None:
    outside = tmp_path / "secret"
    outside.write_text("secret")
    mine, other = queue(runtime).uuid, queue(runtime).uuid
    good = shelf.finish(shelf.begin(mine, "output", 1))
    for path in ("../secret", str(outside), f"{mine[-2:]}/{mine}/../../../secret", "", None):
        assert shelf.find(mine, path) is None
        shelf.remove(mine, path)
    assert shelf.find(other, good) is None
    assert shelf.find(mine, good) == shelf.root / good
    assert outside.exists()
    with pytest.raises(ValueError, match="no uuid"):
        shelf.drop("../..")


def test_with_a_folder_there_is_something_to_prune(runtime: Runtime) -> None:
    assert wanted_ages(runtime, Ages()) == Ages()
