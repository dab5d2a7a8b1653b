"""A developer's host with Flask-DebugToolbar, which writes into pages and stops redirects."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask_debugtoolbar import DebugToolbarExtension
from playwright.sync_api import expect

from tests.browser.conftest import Serve
from tests.dashboard.embedding import PAGE, WIDGET, with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, end
from tests.dashboard.test_files import DATA, keep
from tests.helpers.browser import WatchedPage

# Of each answer that is HTML and no page: polls, widgets. It is the toolbar's only word about them.
pytestmark = pytest.mark.filterwarnings("ignore:Could not insert debug toolbar:UserWarning")

PATIENT = 60_000
TOOLBAR = 'id="flDebug"'


@pytest.fixture(params=[True, False], ids=["redirects stopped", "redirects followed"])
def bench(request: Any, make_host: MakeHost, tmp_path: Any) -> Host:
    """The host in debug mode, with a toolbar."""

    def before(app: Flask) -> None:
        DebugToolbarExtension(app)
        with_page(f"{PAGE}</body>")(app)
        app.add_url_rule("/favicon.ico", "icon", lambda: "")

    return make_host(
        before=before,
        DEBUG=True,
        DEBUG_TB_INTERCEPT_REDIRECTS=request.param,
        SQLALCHEMY_RECORD_QUERIES=True,
        JOBRUNNER_POLL_MIN=1,
        JOBRUNNER_FILES_DIR=str(tmp_path / "files"),
    )


def test_pages_get_a_toolbar_and_everything_else_stays_as_it_is(bench: Host) -> None:
    uuid = add_job(bench.runtime, "running")
    add_lines(bench.runtime, uuid, ["line one"])
    keep(bench, uuid, "page.html", content_type="text/html")

    for path in ("/", f"/{uuid}", f"/{uuid}/log", f"/{uuid}/cancel", "/types", "/supervisors"):
        assert TOOLBAR in bench.get(path).text, path
    assert TOOLBAR in bench.client().get(f"/report/{uuid}").text
    poll = bench.poll(f"/jobs/{uuid}/_live?c=0&v=0&p=0")
    assert "line one" in poll.text
    assert TOOLBAR not in poll.text
    assert poll.headers["X-Jobrunner-Fragment"] == "1"
    widget = bench.client().get(f"/jobs/{uuid}/embed", headers=WIDGET)
    assert widget.headers["X-Jobrunner-Fragment"] == "1"
    assert TOOLBAR not in widget.text
    assert "line one" in bench.get(f"/{uuid}/log.txt").text
    with bench.get(f"/{uuid}/artifacts/page.html") as download:
        assert download.data == DATA


@pytest.mark.browser
@pytest.mark.slow
def test_pages_and_widgets_live_beside_the_toolbar(
    bench: Host, serve: Serve, browser_page: WatchedPage
) -> None:
    bench.jobs.actor(lambda: "anna")
    first, second = (
        add_job(bench.runtime, "running", owner="anna", title=title) for title in ("One", "Two")
    )
    served, page = serve(bench.app), browser_page.page

    page.goto(f"{served.url}/report/{first}")
    widget = page.locator("jr-live").first
    add_lines(bench.runtime, first, ["line one"])
    expect(widget).to_contain_text("line one", timeout=PATIENT)
    widget.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(widget).to_contain_text("Cancelling", timeout=PATIENT)
    expect(widget.locator("[data-jr-note]")).to_be_hidden()

    page.goto(f"{served.url}/jobs/{second}")
    add_lines(bench.runtime, second, ["line two"])
    expect(page.get_by_text("line two")).to_be_visible(timeout=PATIENT)
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    if bench.app.config["DEBUG_TB_INTERCEPT_REDIRECTS"]:
        page.get_by_role("link", name="?did=cancel").click()
    expect(page.locator("#jr-did")).to_contain_text("Cancel requested")
    end(bench.runtime, second)
    expect(page.locator("#jr-state")).to_have_text("Succeeded", timeout=PATIENT)
    assert browser_page.failed_requests == []
