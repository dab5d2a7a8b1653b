"""Behind a proxy that strips a prefix, everything stays below it, and nothing is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import expect
from werkzeug.middleware.proxy_fix import ProxyFix

from tests.browser.conftest import Serve
from tests.dashboard.embedding import PAGE, with_page
from tests.dashboard.hosts import MakeHost
from tests.dashboard.seeding import add_job, add_lines, end
from tests.dashboard.test_files import DATA, keep
from tests.guests.stripping_proxy import stripping_proxy
from tests.helpers.browser import WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATIENT = 60_000
MOUNT = "/admin/ops/jobs"


def test_a_walk_behind_a_prefix_that_is_stripped(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage, tmp_path: Path
) -> None:
    def before(app: Flask) -> None:
        with_page(PAGE.replace("<head>", '<head><link rel="icon" href="data:,">'))(app)
        app.add_url_rule("/", "home", lambda: '<link rel="icon" href="data:,"><h1>Home</h1>')
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]  # as Flask's documentation does
            app.wsgi_app, x_for=1, x_proto=1, x_host=1, x_prefix=1
        )

    host = make_host(
        before=before,
        JOBRUNNER_URL_PREFIX=MOUNT,
        JOBRUNNER_POLL_MIN=1,
        JOBRUNNER_FILES_DIR=str(tmp_path / "files"),
    )
    host.jobs.actor(lambda: "anna")
    first, second = (
        add_job(host.runtime, "running", title=title, owner="anna") for title in ("One", "Two")
    )
    for _ in range(60):
        add_job(host.runtime, "succeeded", age=3600)
    add_lines(host.runtime, first, [f"line {n}" for n in range(1, 2001)])
    keep(host, first, "out.csv")
    page = browser_page.page

    with stripping_proxy(serve(host.app).url, "/shop/inside") as proxy:
        root = f"{proxy.url}/shop/inside{MOUNT}"
        page.goto(root)
        page.get_by_role("link", name="Older").click()
        for path in ("types", "types/reports.build", "supervisors", "prefs", "?q=one"):
            page.goto(f"{root}/{path}")
        page.get_by_role("link", name="One", exact=True).click()
        add_lines(host.runtime, first, ["one more"])
        expect(page.get_by_text("one more")).to_be_visible(timeout=PATIENT)
        page.locator("#jr-log").evaluate("(e) => e.scrollTo(0, 0)")
        page.evaluate("document.querySelector('#jr-earlier a').click()")
        expect(page.locator("#L900")).to_be_attached(timeout=PATIENT)
        with page.expect_download() as download:
            page.get_by_role("link", name="out.csv").click()
        assert download.value.path().read_bytes() == DATA
        page.get_by_role("link", name="full page").click()
        page.locator("nav.jr-crumbs a").nth(1).click()
        page.get_by_role("link", name="Cancel job").click()
        page.get_by_role("button", name="Cancel job").click()
        expect(page.locator("#jr-did")).to_contain_text("Cancel requested")
        assert page.url.partition("?")[0] == f"{root}/{first}"
        end(host.runtime, first)
        expect(page.locator("#jr-state")).to_have_text("Succeeded", timeout=PATIENT)

        page.goto(f"{root}/prefs")
        page.get_by_label("Dark").check()
        page.get_by_role("button", name="Keep preferences").click()
        page.get_by_role("link", name="Jobs", exact=True).click()
        assert page.locator("html").get_attribute("data-theme") == "dark"

        page.goto(f"{proxy.url}/shop/inside/report/{second}")
        add_lines(host.runtime, second, ["in a widget"])
        expect(page.get_by_text("in a widget")).to_be_visible(timeout=PATIENT)
        page.get_by_role("link", name="Cancel job").click()
        page.get_by_role("button", name="Cancel job").click()
        expect(page.locator("jr-live").first).to_contain_text("Cancelling", timeout=PATIENT)
        page.goto(root)
        page.get_by_role("link", name="Back to shop").click()
        expect(page.locator("h1")).to_have_text("Home")

        assert proxy.outside() == []
        assert proxy.refused() == []
        cookies = [c for c in page.context.cookies() if c["name"].startswith("jobrunner")]
        assert {cookie["path"] for cookie in cookies} == {f"/shop/inside{MOUNT}/"}
    browser_page.assert_clean()
