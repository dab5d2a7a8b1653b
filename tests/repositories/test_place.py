"""Where a file lies, by the mounts that the kernel lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import ConfigError, JobRunner
from flask_jobrunner.repositories import place
from flask_jobrunner.repositories.place import network_filesystem


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/app.db", None),
        ("/mnt/share/app.db", "nfs4"),
        ("/mnt/shared/app.db", None),
        ("/mnt/share/local/app.db", None),
        ("/mnt/two words/app.db", "cifs"),
        ("/mnt/ssh/deep/down/app.db", "fuse.sshfs"),
        ("/mnt/over/app.db", "9p"),
        ("", None),
    ],
)
def test_the_deepest_and_latest_mount_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str | None
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\n"
        "server:/x /mnt/share nfs4 rw 0 0\n"
        "/dev/sdb1 /mnt/share/local xfs rw 0 0\n"
        "//server/y /mnt/two\\040words cifs rw 0 0\n"
        "u@host: /mnt/ssh fuse.sshfs rw 0 0\n"
        "tmpfs /mnt/over tmpfs rw 0 0\n"
        "hostshare /mnt/over 9p rw 0 0\n"
        "not a mount\n"
    )
    monkeypatch.setattr(place, "MOUNTS", mounts)

    assert network_filesystem(path) == kind


def test_where_nothing_lists_mounts_no_file_is_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "MOUNTS", Path("/no/such/mounts"))

    assert network_filesystem("/mnt/share/app.db") is None


def test_this_machines_own_list_can_be_read(tmp_path: Path) -> None:
    assert network_filesystem(str(tmp_path)) is None


@pytest.mark.parametrize("database_url", ["sqlite:///app.db"])
def test_a_start_refuses_a_file_on_one_before_there_is_a_row(
    host_app: Flask, host_jobs: JobRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr(place, "MOUNTS", mounts)

    with pytest.raises(ConfigError, match=r"network file system \(nfs\)"):
        host_jobs.start("host.nothing")
    assert host_jobs.find().jobs == []
