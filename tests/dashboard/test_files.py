"""Files of a job: who gets them, how they are sent, and what the page says of them."""

from __future__ import annotations

import hashlib
import html
import re
from pathlib import Path
from typing import Any

import pytest

from flask_jobrunner.files.shelf import Shelf
from flask_jobrunner.model.files import FileKind, NewFile
from flask_jobrunner.recovery.old_files import expire, expired
from flask_jobrunner.repositories.new_files import add_file
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job

DATA = bytes(range(256)) * 40


@pytest.fixture
def files_host(make_host: MakeHost, tmp_path: Path) -> Host:
    return make_host(JOBRUNNER_FILES_DIR=str(tmp_path / "files"))


def keep(
    host: Host,
    uuid: str,
    name: str,
    data: bytes = DATA,
    *,
    kind: FileKind = "output",
    attempt: int = 1,
    content_type: str = "text/csv",
) -> None:
    """A file of a job, as if it had been published."""
    shelf, owned = Shelf(host.runtime.files_dir()), host.runtime.jobs.owned(uuid)
    assert owned is not None
    job_id, part = owned.job.id, shelf.begin(uuid, kind, attempt)
    part.write_bytes(data)
    told, path = shelf.measure(part), shelf.finish(part)
    new = NewFile(
        name=name,
        kind=kind,
        path=path,
        size=told.size,
        content_type=content_type,
        sha256=told.sha256,
        keep=60.0,
    )
    database = host.runtime.database
    database.run(lambda connection: add_file(connection, database, job_id, attempt, new))


def shown(host: Host, uuid: str) -> str:
    body = host.get(f"/{uuid}").text
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def downloads(host: Host, uuid: str) -> list[tuple[str | None, str | None]]:
    owned = host.runtime.jobs.owned(uuid)
    assert owned is not None
    events = host.runtime.events.of(owned.job.id)
    return [(e.actor, e.reason) for e in events if e.action == "download"]


def test_a_file_is_an_attachment_that_nothing_opens(files_host: Host) -> None:
    uuid = add_job(files_host.runtime, "succeeded")
    keep(files_host, uuid, 'evil "ä".html', b"<script>1</script>", content_type="text/html")

    with files_host.get(f"/{uuid}/artifacts/evil%20%22%C3%A4%22.html") as answer:
        assert answer.data == b"<script>1</script>"
        assert answer.headers["Content-Disposition"].startswith("attachment;")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
        assert answer.headers["Cache-Control"] == "no-store"


def test_ranges_and_validators(files_host: Host) -> None:
    uuid = add_job(files_host.runtime, "succeeded")
    keep(files_host, uuid, "a")
    client, path = files_host.client(), f"/jobs/{uuid}/artifacts/a"

    with client.get(path, headers={"Range": "bytes=100-299"}) as part:
        assert (part.status_code, part.data) == (206, DATA[100:300])
        assert part.headers["Content-Range"] == f"bytes 100-299/{len(DATA)}"
    with client.get(path, headers={"Range": "bytes=-5"}) as tail:
        assert tail.data == DATA[-5:]
    with client.get(path, headers={"Range": f"bytes={len(DATA)}-"}) as beyond:
        assert beyond.status_code == 416
    with client.get(path) as whole:
        assert whole.data == DATA
        etag = whole.headers["ETag"]
    assert etag == f'"{hashlib.sha256(DATA).hexdigest()}"'
    with client.get(path, headers={"If-None-Match": etag}) as known:
        assert known.status_code == 304
    with client.head(path) as head:
        assert (head.data, head.content_length) == (b"", len(DATA))


def test_it_is_sent_a_piece_at_a_time(files_host: Host) -> None:
    uuid = add_job(files_host.runtime, "succeeded")
    data = b"x" * (1 << 20)
    keep(files_host, uuid, "a", data)

    with files_host.client().get(f"/jobs/{uuid}/artifacts/a", buffered=False) as answer:
        pieces = [len(piece) for piece in answer.iter_encoded()]
    assert sum(pieces) == len(data)
    assert max(pieces) <= 64 << 10


def test_the_newest_attempts_unless_another_is_asked_for(files_host: Host) -> None:
    uuid = add_job(files_host.runtime, "succeeded", attempt=2)
    keep(files_host, uuid, "a", b"first")
    keep(files_host, uuid, "a", b"second", attempt=2)
    keep(files_host, uuid, "a", b"given", kind="input")

    def got(query: str) -> Any:
        with files_host.get(f"/{uuid}/artifacts/a{query}") as answer:
            return answer.data

    assert [got(""), got("?attempt=1"), got("?kind=input")] == [b"second", b"first", b"given"]
    assert files_host.get(f"/{uuid}/artifacts/a?attempt=3").status_code == 404
    assert files_host.get(f"/{uuid}/artifacts/a?kind=other").status_code == 400
    assert files_host.get(f"/{uuid}/artifacts/a?attempt=x").status_code == 400


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..%2fapp.py", "a%00", "%ff", "b", "%2Fa"])
def test_a_name_that_is_none_of_its_files_leads_nowhere(files_host: Host, name: str) -> None:
    uuid = add_job(files_host.runtime, "succeeded")
    keep(files_host, uuid, "a")

    assert files_host.get(f"/{uuid}/artifacts/{name}").status_code in (308, 404)


def test_a_download_is_kept_in_the_history_once_for_each_actor(
    files_host: Host,
) -> None:
    uuid = add_job(files_host.runtime, "succeeded")
    keep(files_host, uuid, "a")
    actors = iter(["ann", "ann", "ben"])
    files_host.jobs.actor(lambda: next(actors))
    for _ in range(3):
        with files_host.get(f"/{uuid}/artifacts/a") as answer:
            assert answer.status_code == 200

    assert downloads(files_host, uuid) == [("ann", "a"), ("ben", "a")]
    assert "Downloaded by ben" in shown(files_host, uuid)


def test_an_expired_file_is_gone_and_stays_on_the_page(files_host: Host) -> None:
    uuid = add_job(files_host.runtime, "succeeded")
    keep(files_host, uuid, "a")
    for old in expired(files_host.runtime, -3600.0):
        assert expire(files_host.runtime, old)

    answer = files_host.get(f"/{uuid}/artifacts/a")
    assert answer.status_code == 410
    assert "its time was over" in answer.text
    assert "/artifacts/a" not in files_host.get(f"/{uuid}").text
    assert "removed" in shown(files_host, uuid)
    assert downloads(files_host, uuid) == []


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_bytes_that_are_not_as_they_were_are_not_sent(
    files_host: Host, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    uuid = add_job(files_host.runtime, "succeeded")
    keep(files_host, uuid, "a")
    (file,) = [path for path in files_host.runtime.files_dir().rglob("*") if path.is_file()]
    file.unlink()
    if damage == "cut":
        file.write_bytes(DATA[:10])

    answer = files_host.get(f"/{uuid}/artifacts/a")
    assert answer.status_code == 404
    assert "not where it was stored" in answer.text
    assert uuid in caplog.text


def test_without_download_files_are_only_listed(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host(
        authorize=lambda action, job: action != "download",
        JOBRUNNER_FILES_DIR=str(tmp_path / "files"),
    )
    uuid = add_job(host.runtime, "succeeded")
    keep(host, uuid, "orders.csv")

    assert "orders.csv Made, 10.2 kB, text/csv" in shown(host, uuid)
    assert "/artifacts/" not in host.get(f"/{uuid}").text
    assert host.get(f"/{uuid}/artifacts/orders.csv").status_code == 403
    assert downloads(host, uuid) == []


def test_files_of_others_are_not_there(files_host: Host) -> None:
    files_host.jobs.scope(lambda: "ben")
    theirs = add_job(files_host.runtime, "succeeded", owner="anna")
    keep(files_host, theirs, "a")

    assert files_host.get(f"/{theirs}/artifacts/a").status_code == 404
    assert downloads(files_host, theirs) == []


def test_the_page_lists_them_escaped(files_host: Host) -> None:
    uuid = add_job(files_host.runtime, "succeeded", attempt=2)
    keep(files_host, uuid, "<b>&.csv", kind="input")
    keep(files_host, uuid, "out.csv", attempt=2)

    body, text = files_host.get(f"/{uuid}").text, shown(files_host, uuid)
    assert "&lt;b&gt;&amp;.csv" in body
    assert "<b>&" not in body
    assert "Given, 10.2 kB, text/csv" in text
    assert "Made, attempt 2, 10.2 kB, text/csv" in text
    assert "kept until" in text
    for address in re.findall(r'href="([^"]*/artifacts/[^"]*)"', body):
        with files_host.client().get(html.unescape(address)) as answer:
            assert answer.data == DATA


def test_a_job_without_files_has_no_such_panel(host: Host) -> None:
    assert 'id="jr-h-files"' not in host.get(f"/{add_job(host.runtime, 'succeeded')}").text
