"""Everything that people come for, with JavaScript off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Serve
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines
from tests.dashboard.test_files import DATA, keep
from tests.dashboard.test_supervisors import PULLED
from tests.helpers.browser import WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Host:
    host = make_host(JOBRUNNER_FILES_DIR=str(tmp_path / "files"))
    host.jobs.handler("reports.build", manual=True)(lambda ctx: None)
    return host


def back_to_the_list(page: Page) -> None:
    page.get_by_role("link", name="Jobs", exact=True).first.click()


def test_from_the_list_to_a_job_its_log_and_its_files(
    host: Host, serve: Serve, browser_page_without_javascript: WatchedPage
) -> None:
    watched, served = browser_page_without_javascript, serve(host.app)
    page = watched.page
    for number in range(70):
        add_job(host.runtime, "succeeded", age=3600 + number, title=f"Old {number}")
    uuid = add_job(host.runtime, "failed", title="Import orders", **PULLED)
    add_lines(
        host.runtime,
        uuid,
        [
            {"message": f"line {n}", "level": "error" if n == 1500 else "info"}
            for n in range(1, 3001)
        ],
    )
    keep(host, uuid, "rejected.csv")

    page.goto(f"{served.url}/jobs/")
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_text("Old 0", exact=True)).to_be_visible()
    back_to_the_list(page)
    page.get_by_role("link", name=re.compile("^Failed")).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    back_to_the_list(page)
    page.locator("input[name=q]").fill("import")
    page.locator("input[name=q]").press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Import orders").click()

    with page.expect_download() as download:
        page.get_by_role("link", name="rejected.csv").click()
    assert download.value.path().read_bytes() == DATA
    page.get_by_role("link", name="full page").click()
    expect(page.locator("h1")).to_have_text("Log of Import orders")
    page.locator("input[name=q]").fill("line 2999")
    page.locator("input[name=q]").press("Enter")
    expect(page.locator("#L2999")).to_be_visible()
    page.goto(f"{served.url}/jobs/{uuid}/log?line=1500#L1500")
    expect(page.locator("#L1500")).to_be_in_viewport()
    assert page.locator("#L1500").evaluate("(line) => line.matches(':target')")
    with page.expect_download() as text:
        page.get_by_role("link", name=re.compile("Text|Download", re.IGNORECASE)).first.click()
    assert len(text.value.path().read_text("utf-8").splitlines()) == 3000
    watched.assert_clean()


def test_one_job_and_many_are_acted_on(
    host: Host, serve: Serve, browser_page_without_javascript: WatchedPage
) -> None:
    watched, served = browser_page_without_javascript, serve(host.app)
    page = watched.page
    uuid = add_job(host.runtime, "queued", title="Import orders", **PULLED)
    for _ in range(3):
        add_job(host.runtime, "failed", **PULLED)

    page.goto(f"{served.url}/jobs/{uuid}")
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("link", name="Let it wait").click()
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#jr-did")).to_contain_text("Job cancelled")
    page.get_by_role("link", name="Requeue job").click()
    page.get_by_role("button", name="Requeue job").click()
    expect(page.locator("#jr-did")).to_contain_text("Job requeued")
    expect(page.locator("#jr-state")).to_have_text("Queued")

    back_to_the_list(page)
    page.get_by_role("link", name=re.compile("^Failed")).click()
    page.get_by_role("link", name="Requeue all failed jobs").click()
    page.get_by_role("button", name="Requeue 3 jobs").click()
    expect(page.locator("h1")).to_have_text("Requeued 3 jobs")
    back_to_the_list(page)
    page.get_by_role("link", name=re.compile("^Queued")).click()
    expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_role("link", name="Cancel all queued jobs").click()
    page.get_by_role("button", name="Cancel 4 jobs").click()
    expect(page.locator("h1")).to_have_text("Cancelled 4 jobs")

    page.goto(f"{served.url}/jobs/{uuid}")
    page.get_by_role("link", name="Run again").click()
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#jr-state")).to_have_text("Queued")
    assert uuid not in page.url
    watched.assert_clean()


def test_types_and_preferences(
    host: Host, serve: Serve, browser_page_without_javascript: WatchedPage
) -> None:
    watched, served = browser_page_without_javascript, serve(host.app)
    page = watched.page
    for status in ("succeeded", "failed"):
        add_job(host.runtime, status, error_class="ValueError" if status == "failed" else None)

    page.goto(f"{served.url}/jobs/types")
    page.get_by_role("link", name="reports.build").click()
    expect(page.locator("h1")).to_have_text("reports.build")
    expect(page.locator("main")).to_contain_text("ValueError")
    page.get_by_role("link", name="Preferences").click()
    page.get_by_label("Dark").check()
    page.get_by_label("Time zone").fill("Asia/Kolkata")
    page.get_by_role("button", name="Keep preferences").click()
    expect(page.get_by_text("Preferences kept")).to_be_visible()
    back_to_the_list(page)
    assert page.locator("html").get_attribute("data-theme") == "dark"
    expect(page.locator("footer")).to_contain_text("IST")
    watched.assert_clean()
