"""What a visitor of the demo does: upload a file, watch its lines come, look at the result."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from playwright.sync_api import expect

from demo_app.views import SAMPLE
from tests.demo_app.running import running_demo
from tests.helpers.browser import DESKTOP, PHONE, Pages
from tests.helpers.processes import assert_no_process_left
from tests.helpers.waiting import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATIENT = 60_000
"""Milliseconds: a click that starts a job is answered when its process has claimed it."""


@pytest.mark.parametrize("javascript", [True, False], ids=["with javascript", "without"])
def test_a_visitor_uploads_a_file_and_sees_its_result(
    tmp_path: Path, browser_pages: Pages, javascript: bool
) -> None:
    watched = browser_pages.open(javascript=javascript, size=DESKTOP if javascript else PHONE)
    page = watched.page
    page.set_default_timeout(PATIENT)
    with running_demo(tmp_path, "--port", "0") as (process, address):
        page.goto(address)
        page.get_by_label("CSV with the same columns").set_input_files(SAMPLE)
        if not javascript:
            page.get_by_label("Slow down, to watch", exact=True).uncheck()
        page.get_by_role("button", name="Upload and import").click()
        expect(page.locator("h1")).to_have_text("birdstrikes.csv")
        own_page = page.url
        if javascript:
            widget = page.locator("jr-live")
            expect(widget).to_contain_text("Row 17: no damage, but repairs were paid")
            page.get_by_role("link", name="Show what it brought in").click()
        else:
            page.goto(address)
            eventually(lambda: "Succeeded" in str(page.reload() and page.content()), timeout=60)
            page.get_by_role("link", name="Result").click()
        assert page.url == own_page
        expect(page.get_by_text("9,976")).to_be_visible()
        with page.expect_download() as left_out:
            page.get_by_role("link", name="left-out.csv").click()
        assert len(left_out.value.path().read_text().splitlines()) == 1 + 24
        expect(page.get_by_text("$7,043,545")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        watched.assert_clean()
        process.send_signal(signal.SIGINT)
        eventually(lambda: process.poll() is not None, timeout=30, message="the demo has ended")
    assert_no_process_left(str(tmp_path))


def test_a_visitor_with_a_name_watches_his_own_jobs(tmp_path: Path, browser_pages: Pages) -> None:
    watched = browser_pages.open(size=PHONE)
    page = watched.page
    page.set_default_timeout(PATIENT)
    with running_demo(tmp_path, "--port", "0") as (_, address):
        page.goto(f"{address}mine")
        expect(page.get_by_text("You have no jobs.")).to_be_visible()
        page.get_by_label("Name").fill("Ada")
        page.get_by_role("button", name="Take this name").click()
        page.goto(address)
        page.get_by_role("button", name="Start the failing job").click()
        expect(page.locator("#jr-state")).to_have_text("Failed", timeout=PATIENT)
        expect(page.locator("body")).to_contain_text("plums have no price yet")

        page.goto(f"{address}mine")

        expect(page.locator(".jr-mine li")).to_have_count(1)
        expect(page.locator(".jr-mine li")).to_contain_text("Failed")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        watched.assert_clean()
    assert_no_process_left(str(tmp_path))
