"""Reports that wait as files: found, recorded, put aside; and where they lie."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner.model.errors import ConfigError, LockBusy
from flask_jobrunner.protocol.report import REPORT_MAX_BYTES, dump_report
from flask_jobrunner.recovery import spool
from flask_jobrunner.recovery import sweep as module
from flask_jobrunner.recovery.settle import settle_report
from flask_jobrunner.recovery.sweep import Sweeper
from flask_jobrunner.runtime import Runtime
from tests.helpers.reports import printed, report
from tests.helpers.stores import (
    DEAD,
    change,
    messages,
    owned,
    start,
)


@pytest.fixture
def sweeper(runtime: Runtime) -> Sweeper:
    return Sweeper(runtime)


# -- spooled reports --------------------------------------------------------------------------


def spooled(runtime: Runtime, *reports: Any) -> list[Path]:
    folder, paths = runtime.make_spool_dir(), []
    for told in reports:
        path = folder / f"{told.uuid}.{told.attempt}.json"
        path.write_bytes(dump_report(told))
        paths.append(path)
    return paths


def test_spooled_reports_are_recorded_and_removed(runtime: Runtime, sweeper: Sweeper) -> None:
    dead, ended = start(runtime, worker=DEAD), start(runtime)
    change(runtime, ended.fence.job_id, status="interrupted", finished_at=1)
    told = [report(dead, stdout=printed("last words\n")), report(ended), report()]
    paths = spooled(runtime, *told)

    result = sweeper.sweep()

    assert result.reports == 3
    assert not any(path.exists() for path in paths)
    assert owned(runtime, dead.fence.job_id).job.error_reason_code == "process_died"
    assert messages(runtime, dead.fence.job_id)[0][1] == "last words"
    assert runtime.attempts.is_reported(ended.fence.job_id, 1)
    assert sweeper.sweep().reports == 0


def test_a_spooled_report_that_cannot_be_recorded_now_stays(
    runtime: Runtime, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(runtime, worker=DEAD), start(runtime, worker=DEAD)
    kept, recorded = spooled(runtime, report(first), report(second))

    def refused(runtime: Runtime, told: Any) -> bool:
        if told.uuid == first.owned.job.uuid:
            raise LockBusy("held")
        return settle_report(runtime, told)

    monkeypatch.setattr(module, "settle_report", refused)
    assert sweeper.sweep().reports == 1
    assert kept.exists()
    assert not recorded.exists()


def test_what_is_no_report_is_put_aside_once(
    runtime: Runtime, sweeper: Sweeper, caplog: pytest.LogCaptureFixture
) -> None:
    folder, uuid = runtime.make_spool_dir(), report().uuid
    broken = folder / f"{uuid}.1.json"
    broken.write_bytes(b"{")
    huge = folder / f"{uuid}.2.json"
    huge.write_bytes(b"x" * (REPORT_MAX_BYTES + 10))
    others = [
        folder / name for name in ("README", f"{uuid}.1.json.tmp", f"{uuid}.x.json", "a.json")
    ]
    for other in others:
        other.write_text("not ours")
    (folder / "folder").mkdir()

    with caplog.at_level(logging.WARNING, "flask_jobrunner"):
        assert sweeper.sweep().reports == 0
        assert caplog.text.count("put aside") == 2
        sweeper.sweep()
    assert caplog.text.count("put aside") == 2
    assert not broken.exists()
    assert broken.with_suffix(".bad").exists()
    assert all(other.exists() for other in others)


def test_more_than_a_batch_is_recorded_in_turns(
    runtime: Runtime, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "BATCH", 2)
    folder = runtime.make_spool_dir()
    for number in range(5):
        (folder / f"0 not ours {number}").write_text("x")
    spooled(runtime, *(report() for _ in range(5)))
    assert [sweeper.sweep().reports for _ in range(4)] == [2, 2, 1, 0]


def test_without_a_spool_directory_there_is_nothing_to_record(
    runtime: Runtime, sweeper: Sweeper
) -> None:
    assert not runtime.spool_dir().exists()
    assert sweeper.sweep().reports == 0


# -- where the spool is -----------------------------------------------------------------------


@pytest.fixture
def spare(runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder's place for reports, where the configured one cannot be made."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    (tmp_path / "file").write_text("in the way")
    object.__setattr__(runtime.config, "spool_dir", str(tmp_path / "file" / "spool"))
    return temporary / f"jobrunner-spool-{os.getuid()}"


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
class TestSpoolDirectory:
    """Made for this user alone; a temporary one where it cannot be, which readers find too."""

    def test_it_is_private(self, runtime: Runtime) -> None:
        folder = runtime.make_spool_dir()
        assert folder == runtime.spool_dir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_a_relative_one_starts_at_the_instance_folder(self, runtime: Runtime) -> None:
        object.__setattr__(runtime.config, "spool_dir", "reports")
        assert runtime.spool_dir() == Path(runtime.app.instance_path, "reports")
        object.__setattr__(runtime.config, "spool_dir", None)
        assert runtime.spool_dir() == Path(runtime.app.instance_path, "jobrunner/spool")

    def test_a_report_in_the_spare_one_is_found(
        self, runtime: Runtime, spare: Path, sweeper: Sweeper
    ) -> None:
        assert runtime.make_spool_dir() == spare
        assert stat.S_IMODE(spare.stat().st_mode) == 0o700
        (path,) = spooled(runtime, report())
        assert path.parent == spare
        assert spool.find(runtime, path.name.partition(".")[0], 1) is not None
        assert sweeper.sweep().reports == 1

    def test_a_spare_one_that_others_may_write_to_is_not_used(
        self, runtime: Runtime, spare: Path, sweeper: Sweeper
    ) -> None:
        spare.mkdir()
        spare.chmod(0o777)
        (spare / f"{report().uuid}.1.json").write_bytes(dump_report(report()))
        with pytest.raises(ConfigError, match="JOBRUNNER_SPOOL_DIR"):
            runtime.make_spool_dir()
        assert sweeper.sweep().reports == 0

    def test_nor_one_that_is_a_link(self, runtime: Runtime, spare: Path, tmp_path: Path) -> None:
        target = tmp_path / "theirs"
        target.mkdir(mode=0o700)
        spare.symlink_to(target)
        with pytest.raises(ConfigError):
            runtime.make_spool_dir()
