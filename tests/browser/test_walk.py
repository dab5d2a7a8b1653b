"""The whole walk with a real job: list, detail, a log that grows, cancel, cancelled."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from playwright.sync_api import Page, expect

from flask_jobrunner import JobRunner
from tests.browser.conftest import Serve
from tests.helpers.browser import WatchedPage
from tests.helpers.waiting import eventually
from tests.host_acts import script

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TALK = script(*[act for n in range(400) for act in (("say", "info", f"Row {n}"), ("pause", 0.05))])


def lines(page: Page) -> list[str]:
    return page.locator("#jr-log p[id^=L] > span").all_text_contents()


def test_the_walk_in_a_browser(
    host_app: Flask, host_jobs: JobRunner, serve: Serve, browser_page: WatchedPage
) -> None:
    served, page = serve(host_app), browser_page.page
    started = host_jobs.start("host.script", TALK, title="Talking job", actor="anna")
    assert started.ok

    page.goto(f"{served.url}/jobs/")
    row = page.locator("tbody tr").filter(has_text="Talking job")
    expect(row.get_by_text("Running")).to_be_visible(timeout=60_000)
    row.get_by_role("link", name="Talking job").click()

    expect(page.locator("h1")).to_have_text("Talking job")
    eventually(lambda: len(lines(page)) >= 5)
    count = len(lines(page))
    eventually(lambda: len(lines(page)) >= count + 20, timeout=60)

    page.get_by_role("link", name="Cancel job").click()
    expect(page.locator("h1")).to_have_text("Cancel this job?")
    page.get_by_role("button", name="Cancel job").click()

    expect(page.locator("#jr-did")).to_contain_text("Cancel requested")
    expect(page.locator("#jr-state")).to_have_text("Cancelled", timeout=60_000)
    expect(page.locator("#jr-live-text")).to_have_text("Complete")
    expect(page.get_by_role("link", name="Requeue job")).to_be_visible()
    assert started.job is not None
    stored = host_jobs.status(started.job.uuid, after_seq=0, limit=1000)
    assert page.locator("#jr-log p[id^=L]").count() == stored.last_log_seq
    browser_page.assert_clean()


def test_the_walk_without_javascript(
    host_app: Flask,
    host_jobs: JobRunner,
    serve: Serve,
    browser_page_without_javascript: WatchedPage,
) -> None:
    served, page = serve(host_app), browser_page_without_javascript.page
    started = host_jobs.start("host.script", TALK, title="Talking job", actor="anna")
    assert started.ok

    page.goto(f"{served.url}/jobs/")
    page.get_by_role("link", name=re.compile("^Running")).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Talking job").click()
    page.get_by_role("link", name="Reload to update").click()
    before = len(lines(page))

    def more_after_a_reload() -> bool:
        page.reload()
        return len(lines(page)) >= before + 10

    eventually(more_after_a_reload, timeout=60)
    page.get_by_role("link", name="full page").click()
    expect(page.locator("h1")).to_have_text("Log of Talking job")
    assert len(lines(page)) >= before
    page.locator("nav.jr-crumbs a").nth(1).click()

    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("link", name="Keep running").click()
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#jr-did")).to_contain_text("Cancel requested")

    def cancelled_after_a_reload() -> bool:
        page.reload()
        return page.locator("#jr-state").inner_text() == "Cancelled"

    eventually(cancelled_after_a_reload, timeout=60)
    page.get_by_role("link", name="Requeue job").click()
    page.get_by_role("button", name="Requeue job").click()
    expect(page.locator("#jr-did")).to_contain_text("Job requeued")
    expect(page.locator("#jr-timeline")).to_contain_text("Requeued as attempt 2")
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#jr-did")).to_be_visible()
    eventually(cancelled_after_a_reload, timeout=60)
    browser_page_without_javascript.assert_clean()
