"""Downloads while files are replaced, expire, or are not what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from flask_jobrunner.model.files import StoredFile
from flask_jobrunner.recovery.old_files import expire, expired
from flask_jobrunner.repositories.files import FileRepository
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.dashboard.test_files import DATA, keep


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Host:
    return make_host(JOBRUNNER_FILES_DIR=str(tmp_path / "files"))


def let_all_expire(host: Host) -> None:
    for old in expired(host.runtime, -3600.0):
        assert expire(host.runtime, old)


def after_the_first_look(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    """Everything expires between the row that is read and the bytes that are opened."""
    find, seen = FileRepository.find, list[bool]()

    def find_and_expire(self: FileRepository, *arguments: object) -> StoredFile | None:
        found = find(self, *arguments)  # type: ignore[arg-type]  # passed on as they came
        if not seen:
            seen.append(True)
            let_all_expire(host)
        return found

    monkeypatch.setattr(FileRepository, "find", find_and_expire)


def test_one_that_expires_between_row_and_bytes_is_gone_and_not_missing(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    uuid = add_job(host.runtime, "succeeded")
    keep(host, uuid, "a")
    after_the_first_look(monkeypatch, host)

    assert host.get(f"/{uuid}/artifacts/a").status_code == 410
    assert caplog.text == ""


def test_one_that_expires_while_it_is_sent_is_sent_whole(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded")
    data = DATA * 50
    keep(host, uuid, "a", data)

    with host.client().get(f"/jobs/{uuid}/artifacts/a", buffered=False) as answer:
        pieces = answer.iter_encoded()
        got = next(pieces)
        let_all_expire(host)
        got += b"".join(pieces)

    assert got == data
    assert host.get(f"/{uuid}/artifacts/a").status_code == 410


@pytest.mark.parametrize("size", [len(DATA), 1])
def test_a_link_in_the_place_of_a_file_is_not_followed(
    host: Host, tmp_path: Path, size: int
) -> None:
    uuid = add_job(host.runtime, "succeeded")
    keep(host, uuid, "a")
    (file,) = [path for path in host.runtime.files_dir().rglob("*") if path.is_file()]
    other = tmp_path / "secret"
    other.write_bytes(b"s" * size)
    file.unlink()
    file.symlink_to(other)

    answer = host.get(f"/{uuid}/artifacts/a")
    assert answer.status_code == 404
    assert b"ssss" not in answer.data
