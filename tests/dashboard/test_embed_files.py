"""The files that a job has left, on a page of the application's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flask_jobrunner.recovery.old_files import expire, expired
from tests.dashboard.embedding import ask, poll_url, shown, with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, change
from tests.dashboard.test_files import keep

TURNED_OFF = (
    '{% from "flask_jobrunner/embed.html" import job_widget %}{{ job_widget(uuid, files=false) }}'
)


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Host:
    """A host with a page of its own, whose jobs may have files."""
    return make_host(JOBRUNNER_FILES_DIR=str(tmp_path / "files"), before=with_page())


def test_what_a_job_left_can_be_had_from_the_page(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded")
    keep(host, uuid, "given.csv", kind="input")
    keep(host, uuid, "made & done.csv", b"1,2")

    body = shown(host, uuid)

    (link,) = re.findall(r'<a href="([^"]+)" download>made &amp; done\.csv</a>', body)
    assert "given.csv" not in body
    answer = host.client().get(link.replace("&amp;", "&"))
    assert answer.data == b"1,2"
    answer.close()


def test_a_file_appears_while_the_job_runs(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    where = poll_url(shown(host, uuid))
    assert ask(host, where).status_code == 204

    keep(host, uuid, "made.csv")
    change(host.runtime, uuid)  # as publishing does

    assert "made.csv</a>" in ask(host, where).text


def test_without_news_files_are_not_looked_for(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    where = poll_url(shown(host, add_job(host.runtime, "running")))
    monkeypatch.setattr(type(host.runtime.files), "of", None)

    assert ask(host, where).status_code == 204


def test_whoever_may_not_download_sees_names_without_links(host: Host) -> None:
    host.jobs.authorize(lambda action, _job: action != "download")
    uuid = add_job(host.runtime, "succeeded")
    keep(host, uuid, "made.csv")

    body = shown(host, uuid)

    assert "made.csv" in body
    assert "/artifacts/" not in body


def test_a_file_whose_time_is_over_is_told_and_not_linked(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded")
    keep(host, uuid, "made.csv")
    for old in expired(host.runtime, -3600.0):
        assert expire(host.runtime, old)

    body = shown(host, uuid)

    assert "removed" in body
    assert "/artifacts/" not in body


def test_a_page_may_leave_the_files_out(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host(JOBRUNNER_FILES_DIR=str(tmp_path / "files"), before=with_page(TURNED_OFF))
    uuid = add_job(host.runtime, "running")
    keep(host, uuid, "made.csv")

    body = shown(host, uuid)
    where = poll_url(body)
    change(host.runtime, uuid)

    assert "made.csv" not in body
    assert "made.csv" not in ask(host, where).text
