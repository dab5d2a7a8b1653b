"""Whatever jobs, files and supervisors are called, no script of theirs runs on any page.

The browser heeds no policy here, so that nothing but escaping keeps a script from running.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Dialog, Page, expect

from flask_jobrunner.model.files import name_fault
from tests.browser.conftest import Serve
from tests.dashboard.embedding import with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_lines, change
from tests.dashboard.test_escaping import CORPUS, nasty_job
from tests.dashboard.test_files import keep
from tests.dashboard.test_supervisors import add_supervisor
from tests.helpers.browser import Pages

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATIENT = 60_000
READABLE = [text for text in CORPUS if text.isprintable() and "\u202e" not in text]


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Host:
    host = make_host(before=with_page(), JOBRUNNER_FILES_DIR=str(tmp_path / "files"))
    host.jobs.actor(lambda: "me")
    return host


def job_of(host: Host, text: str) -> str:
    """A running job that has the text in every place there is, and `me` as its owner."""
    uuid = nasty_job(host, text, "running")
    change(host.runtime, uuid, owner="me", revision=text)
    if name_fault(text) is None:
        keep(host, uuid, text, content_type="text/html")
        keep(host, uuid, text, b"<script>alert(2)</script>", kind="input")
    return uuid


def trap(page: Page) -> list[str]:
    """What scripts of others have opened or asked for."""
    caught = list[str]()

    def dismiss(dialog: Dialog) -> None:
        caught.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on(
        "request",
        lambda request: (
            caught.append(request.url) if request.url.endswith(("/x", "/evil")) else None
        ),
    )
    return caught


def test_on_no_page_of_a_job(host: Host, serve: Serve, browser_pages: Pages) -> None:
    page = browser_pages.open(heeds_policies=False).page
    served = serve(host.app)
    caught = trap(page)

    for text in CORPUS:
        uuid = job_of(host, text)
        page.goto(f"{served.url}/jobs/{uuid}")
        if text in READABLE:
            assert page.locator("h1").inner_text() == " ".join(text.split())
            expect(page.locator("#jr-log")).to_contain_text(text)
        add_lines(host.runtime, uuid, [text, {"message": "last", "level": "error"}])
        page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
        expect(page.locator("#jr-log")).to_contain_text("last", timeout=PATIENT)
        page.goto(f"{served.url}/jobs/{uuid}/log?q={quote(text)}")
        page.goto(f"{served.url}/jobs/{uuid}/cancel?next={quote('/' + text)}")
        page.goto(f"{served.url}/report/{uuid}")
        add_lines(host.runtime, uuid, ["in the widget"])
        page.evaluate("document.dispatchEvent(new Event('jobrunner:wake'))")
        expect(page.locator("jr-live").first).to_contain_text("in the widget", timeout=PATIENT)

    assert caught == []


def test_on_no_page_of_many(host: Host, serve: Serve, browser_pages: Pages) -> None:
    page = browser_pages.open(heeds_policies=False).page
    served = serve(host.app)
    caught = trap(page)
    for number, text in enumerate(CORPUS):
        job_of(host, text)
        nasty_job(host, text, "failed")
        add_supervisor(host, f"s{number}", types=(text,), revision=text[:60], version=text[:20])
    table = host.runtime.database.tables.supervisors
    host.runtime.database.run(
        lambda connection: connection.execute(table.update().values(worker_host=CORPUS[2]))
    )

    for path in (
        "",
        "types",
        "supervisors",
        "prefs",
        "?status=failed",
        "bulk/cancel",
        "bulk/requeue",
    ):
        page.goto(f"{served.url}/jobs/{path}")
        assert page.locator("h1").count() == 1, path
    for text in CORPUS:
        for key in ("q", "type", "owner", "reference", "lock", "error"):
            if key in ("q", "type") or text == CORPUS[2]:
                page.goto(f"{served.url}/jobs/?{key}={quote(text)}")
        page.goto(f"{served.url}/jobs/types/{quote(text, safe='')}")
    page.goto(f"{served.url}/jobs/?q={quote(CORPUS[2])}")
    expect(page.locator("tbody tr").first).to_contain_text(CORPUS[2])

    assert caught == []
