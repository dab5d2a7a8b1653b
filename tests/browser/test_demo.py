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


@pytest.mark.parametrize("javascript", [True, False], ids=["with javascript", "without"])
def test_a_visitor_uploads_a_file_and_sees_its_result(
    tmp_path: Path, browser_pages: Pages, javascript: bool
) -> None:
    watched = browser_pages.open(javascript=javascript, size=DESKTOP if javascript else PHONE)
    page = watched.page
    with running_demo(tmp_path, "--port", "0") as (process, address):
        page.goto(address)
        page.get_by_label("CSV with the same columns").set_input_files(SAMPLE)
        if not javascript:
            page.get_by_label("Slow down, to watch", exact=True).uncheck()
        page.get_by_role("button", name="Upload and import").click()
        expect(page.locator("h1")).to_have_text("Import birdstrikes.csv")
        if javascript:
            log = page.locator("#jr-log")
            expect(log).to_contain_text("Row 17: no damage, but repairs were paid")
            expect(log).to_contain_text("9,976 rows are good enough to keep", timeout=60_000)
            expect(page.locator("#jr-state")).to_have_text("Succeeded", timeout=60_000)
        page.goto(address)
        result = page.get_by_role("link", name="Result")
        eventually(lambda: "Succeeded" in str(page.reload() and page.content()), timeout=60)
        result.click()
        expect(page.locator("h1")).to_have_text("birdstrikes.csv")
        expect(page.get_by_text("9,976")).to_be_visible()
        expect(page.get_by_text("$7,043,545")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        watched.assert_clean()
        process.send_signal(signal.SIGINT)
        eventually(lambda: process.poll() is not None, timeout=30, message="the demo has ended")
    assert_no_process_left(str(tmp_path))
