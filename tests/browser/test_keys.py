"""Pages with the keyboard alone: single keys, which can be switched off, and Tab and Enter."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Served
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines
from tests.helpers.browser import WatchedPage
from tests.helpers.waiting import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_keys_lead_everywhere_and_stay_off_once_they_are_off(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    for keys, where in (("gw", "/supervisors"), ("gt", "/types"), ("gj", "/")):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_url(f"{served.url}/jobs{where}", timeout=60_000)
    page.keyboard.press("/")
    field = page.get_by_role("searchbox")
    expect(field).to_be_focused()
    page.keyboard.type("gw?p")
    expect(field).to_have_value("gw?p")
    field.blur()

    page.keyboard.press("?")
    expect(page.locator("#jr-keys")).to_be_visible()
    page.get_by_label("Single keys do these").uncheck()
    page.get_by_role("button", name="Close").click()
    page.reload()
    for key in "/?pgw":
        page.keyboard.press(key)
    expect(field).not_to_be_focused()
    expect(page.locator("#jr-keys")).to_be_hidden()
    expect(page.locator("#jr-live-text")).to_have_text("Live")
    assert page.url == f"{served.url}/jobs/"
    browser_page.assert_clean()


def test_keys_with_a_modifier_are_the_browsers(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    page.keyboard.press("Control+p")
    page.keyboard.press("Alt+p")

    expect(page.locator("#jr-live-text")).to_have_text("Live")


def test_keys_of_the_log_and_the_end_key(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(300)])
    page.goto(f"{served.url}/jobs/{uuid}")
    follow, log = page.locator("#jr-follow"), page.locator("#jr-log")
    expect(follow).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("f")
    expect(follow).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("w")
    expect(log).to_have_attribute("data-wrap", "off")
    page.keyboard.press("t")
    expect(log).to_have_attribute("data-times", "offset")

    log.focus()
    page.keyboard.press("Home")
    eventually(lambda: log.evaluate("(e) => e.scrollTop") == 0, timeout=60)
    expect(follow).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("End")
    expect(follow).to_have_attribute("aria-pressed", "true")
    add_lines(host.runtime, uuid, ["the newest"])
    expect(page.get_by_text("the newest")).to_be_in_viewport(timeout=60_000)


def test_a_job_is_found_and_cancelled_with_the_keyboard_alone(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running", title="Import orders"), browser_page.page
    page.goto(f"{served.url}/jobs/")
    press = page.keyboard.press
    press("/")
    page.keyboard.type("orders")
    press("Enter")
    page.wait_for_url("**q=orders*", timeout=60_000)
    tab_to(page, "Import orders")
    press("Enter")
    page.wait_for_url(f"**/{uuid}", timeout=60_000)
    tab_to(page, "Cancel job")
    press("Enter")
    page.wait_for_url(f"**/{uuid}/cancel", timeout=60_000)
    tab_to(page, "Cancel job")
    press("Enter")

    expect(page.locator("#jr-did")).to_be_focused(timeout=60_000)
    expect(page.locator("#jr-did")).to_contain_text("Cancel requested")
    expect(page.locator("#jr-notices .jr-notice")).to_have_count(1)


def tab_to(page: Page, text: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == text:
            return
    raise AssertionError(f"{text} is not reached")
